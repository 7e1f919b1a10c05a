/**
 * Checks the Host header. Bun gives a request with an unreadable Host a relative URL, which the router and `pathOf`
 * would read in different ways. Such requests are rejected first.
 */
import { hostname } from "node:os";
import type { Ctx } from "../context.ts";
import { AppError } from "../lib/errors.ts";
import { parseIp } from "../lib/net/ip.ts";
import { parseListen } from "../lib/net/listen.ts";
import { isAbsolute, urlOf } from "../lib/net/request_target.ts";

/** A name or an IPv4 address, or an IPv6 address in brackets; and a port. One of them: two headers come with a comma. */
const HOST = /^(?:[A-Za-z0-9._-]{1,255}|\[[0-9A-Fa-f:.]{2,45}\])(?::\d{1,5})?$/;

export function requireHost(request: Request, shortest = 1) {
  const host = request.headers.get("host"); // null: not over a connection
  if (isAbsolute(request) && (host === null || (HOST.test(host) && host.length >= shortest))) return;
  throw new AppError("invalid_request", "Send a Host header that names this server, such as Host: 127.0.0.1:7070", {
    param: "Host",
    headers: { connection: "close" },
  });
}

/** The name by which commands of this machine call the server over its socket. Browsers resolve it to this machine. */
const SOCKET_HOST = "socket.localhost";

const WILDCARDS = ["0.0.0.0", "::", ""];

/**
 * The address of this server in links: http.public_url, else what the caller called it, if that is an IP address,
 * localhost, or a name that this machine or http.listen has. For any other name it is the address it listens on: a Host
 * header is the caller's word, and a link on a stranger's name would carry its signature there.
 */
export function rootOf(ctx: Ctx, request: Request): string {
  const { public_url: publicUrl, listen } = ctx.config.http;
  const called = urlOf(request);
  if (called.host === SOCKET_HOST) return called.origin;
  if (publicUrl !== "") return publicUrl;
  const bound = parseListen(listen)?.hostname;
  if (isOwnName(called.hostname, [bound ?? "", hostname()])) return called.origin;
  const server = ctx.state.http.listener;
  const port = server?.port ?? parseListen(listen)?.port ?? 0;
  const at = bound === undefined || WILDCARDS.includes(bound) ? "127.0.0.1" : bound;
  return `${server?.url.protocol ?? "http:"}//${at.includes(":") ? `[${at}]` : at}:${port}`;
}

export function isOwnName(name: string, ownNames: readonly string[]): boolean {
  const plain = name.toLowerCase().replace(/^\[(.*)\]$/, "$1");
  if (plain === "localhost" || plain.endsWith(".localhost") || parseIp(plain) !== undefined) return true;
  return ownNames.some((each) => each !== "" && each.toLowerCase() === plain);
}
