import type { Ctx } from "../context.ts";
import { clientAddress } from "../lib/net/client_address.ts";

/** The IP address of the client; null for a request that came over no connection. */
export function addressOf(ctx: Ctx, request: Request): string | null {
  const peer = ctx.state.http.listener?.requestIP(request)?.address;
  if (peer === undefined) return null;
  const proxies = ctx.state.http.trustedProxies;
  const plain = proxies.length === 0 && !peer.includes(":");
  return plain ? peer : clientAddress(peer, request.headers.get("x-forwarded-for"), proxies);
}
