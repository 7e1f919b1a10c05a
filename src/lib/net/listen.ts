import { parseIp } from "./ip.ts";

export type Listen = { hostname: string; port: number };

/** `host:port`, with an IPv6 host in brackets. Port 0 asks the system for a free one. Undefined when malformed. */
export function parseListen(text: string): Listen | undefined {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([^:[\]/\s]+)):(\d{1,5})$/.exec(text);
  const hostname = match?.[1] ?? match?.[2];
  const port = Number(match?.[3]);
  if (hostname === undefined || port > 65535) return undefined;
  if (match?.[1] !== undefined && !hostname.includes(":")) return undefined;
  return { hostname, port };
}

export const formatListen = ({ hostname, port }: Listen) =>
  hostname.includes(":") ? `[${hostname}]:${port}` : `${hostname}:${port}`;

/** True for a host that other machines cannot reach. A name other than localhost counts as reachable. */
export function isLoopback(hostname: string): boolean {
  if (/^(.+\.)?localhost$/i.test(hostname)) return true;
  const bytes = parseIp(hostname);
  if (bytes === undefined) return false;
  return bytes.length === 4 ? bytes[0] === 127 : bytes.every((byte, i) => byte === (i === 15 ? 1 : 0));
}
