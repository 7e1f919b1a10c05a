import type { Ctx } from "../../context.ts";
import { AppError } from "../../lib/errors.ts";
import { DialError, judgeUrl, type Lookup, networkPolicy, resolveChecked } from "../../platform/network/address.ts";
import { logRefusal } from "../../platform/network/dial_log.ts";

const RESOLVE_MS = 3_000;

/**
 * Rejects addresses that no delivery could reach. A name that does not resolve, or not in time, is accepted: it may
 * resolve later, and every attempt is checked again.
 */
export async function requireReachable(
  ctx: Pick<Ctx, "config" | "log">,
  url: string,
  { field = "url", lookup }: { field?: string; lookup?: Lookup } = {},
): Promise<void> {
  const policy = networkPolicy(ctx.config.network);
  const verdict = judgeUrl(url, policy);
  if (!verdict.allowed) throw refused(field, verdict.reason);
  if (verdict.literal) return;
  const late = Promise.withResolvers<void>();
  const timer = setTimeout(late.resolve, RESOLVE_MS);
  try {
    await Promise.race([resolveChecked(verdict.host, policy, lookup), late.promise]);
  } catch (error) {
    if (!(error instanceof DialError)) throw error;
    logRefusal(ctx.log, verdict.host, error);
    if (error.code === "address_refused") throw refused(field, error.message);
  } finally {
    clearTimeout(timer);
  }
}

const refused = (field: string, reason: string) =>
  new AppError(
    "url_not_allowed",
    `${field}: ${reason}. Use an https address that is publicly routable, or ask the operator to allow this one with network.allow`,
    { param: `/${field}` },
  );
