/**
 * The routes of Ollama take JSON under any content type, as their own examples send it. With `http.ollama_local_key` they
 * need no key from programs of this machine.
 */
import type { z } from "zod";
import type { Ctx } from "../../../context.ts";
import { area, bearer } from "../../../http/auth.ts";
import { allowsOrigin } from "../../../http/cors.ts";
import { isLoopback } from "../../../lib/net/listen.ts";
import { urlOf } from "../../../lib/net/request_target.ts";
import type { Area } from "../../../lib/scopes.ts";
import { authenticateById } from "../../access/api_keys/authenticate.ts";

export function ollamaArea(ctx: Ctx, name: Area = "inference") {
  const keyId = ctx.config.http.ollama_local_key;
  const { authed, takes } = area(ctx, name, {
    ...bearer,
    ...(keyId === ""
      ? {}
      : { withoutKey: (request) => (isLocal(ctx, request) ? authenticateById(ctx, keyId) : undefined) }),
  });
  const anyType = <S extends z.ZodType>(body: S, reading: Parameters<typeof takes>[1] = {}) =>
    takes(body, { ...reading, anyType: true });
  return { authed, takes: anyType };
}

/** Headers that proxies add. A request with one of them may come from another machine. */
const OF_PROXIES = ["forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip"];

/**
 * True for a program of this machine: the peer and the name by which it called the server are local. A page of a website
 * cannot pass for one: its requests have an Origin, and a name that a website points to this machine is not local. A proxy
 * on this machine that adds no header and calls the server `localhost` is not told from a program.
 */
function isLocal(ctx: Ctx, request: Request): boolean {
  const peer = ctx.state.http.listener?.requestIP(request)?.address;
  if (peer === undefined || !isLoopback(peer.replace(/^::ffff:/, ""))) return false;
  const { headers } = request;
  if (OF_PROXIES.some((name) => headers.has(name)) || [...headers.keys()].some((name) => name.startsWith("cf-")))
    return false;
  const name = urlOf(request)
    .hostname.toLowerCase()
    .replace(/^\[(.*)\]$/, "$1");
  if (name !== "localhost" && !isLoopback(name)) return false;
  const origin = headers.get("origin");
  const site = headers.get("sec-fetch-site");
  if (origin !== null) return allowsOrigin(ctx.config.http.cors_origins, origin);
  return site === null || site === "none" || site === "same-origin";
}
