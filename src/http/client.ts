import type { Ctx } from "../context.ts";
import { clientAddress } from "../lib/net/client_address.ts";
import { type Cidr, parseCidr } from "../lib/net/ip.ts";
import { oncePer } from "../lib/once_per.ts";
import type { Config } from "../platform/config/config.ts";
import { listenerOf } from "./connection.ts";

const proxiesOf = oncePer((config: Config) =>
  config.http.trusted_proxies.map(parseCidr).filter((cidr): cidr is Cidr => cidr !== undefined),
);

/** Where a request came from; null when it came over no connection. */
export function addressOf(ctx: Ctx, request: Request): string | null {
  const peer = listenerOf(ctx)?.requestIP(request)?.address;
  if (peer === undefined) return null;
  const proxies = proxiesOf(ctx.config);
  const plain = proxies.length === 0 && !peer.includes(":");
  return plain ? peer : clientAddress(peer, request.headers.get("x-forwarded-for"), proxies);
}
