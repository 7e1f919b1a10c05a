import type { Ctx } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";
import { DialError, judgeUrl, type Lookup, networkPolicy, resolveChecked } from "../../../platform/network/address.ts";
import { logRefusal } from "../../../platform/network/dial_log.ts";

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
  if (!verdict.allowed) throw refused(field, verdict.reason, fixOf(ctx, url));
  if (verdict.literal) return;
  const late = Promise.withResolvers<void>();
  const timer = setTimeout(late.resolve, RESOLVE_MS);
  try {
    await Promise.race([resolveChecked(verdict.host, policy, lookup), late.promise]);
  } catch (error) {
    if (!(error instanceof DialError)) throw error;
    logRefusal(ctx.log, verdict.host, error);
    if (error.code === "address_refused") throw refused(field, error.message, allowFix(verdict.host));
  } finally {
    clearTimeout(timer);
  }
}

const HTTP = /^http:\/\//i;
const TLS_ONLY =
  "Notifications are sent over TLS only, also to addresses in network.allow. For development without TLS use `verk webhooks listen --forward URL`";
const allowFix = (host: string) =>
  `Use an address that is publicly routable, or ask the operator to add ${JSON.stringify(host)} to network.allow`;

/** Says what is needed. `network.allow` is named only if an entry for this host would be enough. */
function fixOf({ config }: Pick<Ctx, "config">, url: string): string {
  if (HTTP.test(url)) return TLS_ONLY;
  const host = URL.canParse(url) ? new URL(url).hostname.replace(/^\[|\]$/g, "") : undefined;
  const wider = host && judgeUrl(url, networkPolicy({ ...config.network, allow: [host] })).allowed;
  return wider ? allowFix(host) : "Use an https address that is publicly routable";
}

const refused = (field: string, reason: string, fix: string) =>
  new AppError("url_not_allowed", `${field}: ${reason}. ${fix}`, { param: `/${field}` });
