import { MINUTE_MS } from "../../lib/units.ts";
import type { Log } from "../log.ts";
import type { DialError } from "./address.ts";

const QUIET_MS = MINUTE_MS;
const MOST_HOSTS = 1_000;
const lastAt = new Map<string, number>();

/**
 * Logs for the operator what a caller must not learn: the address behind a name. A caller chooses the names and how
 * often they are used, so each name gets one line a minute, for at most `MOST_HOSTS` names.
 */
export function logRefusal(
  log: Log,
  host: string,
  error: Pick<DialError, "detail"> & { code: string },
  now = performance.now(),
): void {
  const { code, detail } = error;
  if (code !== "address_refused" || detail === undefined) return;
  const last = lastAt.get(host);
  if (last !== undefined && now - last < QUIET_MS) return;
  if (lastAt.size >= MOST_HOSTS) for (const [name, at] of lastAt) if (now - at >= QUIET_MS) lastAt.delete(name);
  if (lastAt.size >= MOST_HOSTS) return;
  lastAt.set(host, now);
  log.warn("refused to connect to a name", { host, refused: detail });
}
