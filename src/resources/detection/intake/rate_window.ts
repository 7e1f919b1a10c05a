/**
 * So many in any second, exactly: the times of those that were let in, oldest first. A request fits when fewer than
 * `most` of them lie within the window that ends with it.
 */
export type Window = { most: number; lengthMs: number };

/** Adds this one to `times`; or says how long to wait, and adds nothing. */
export function enter(times: number[], nowMs: number, { most, lengthMs }: Window): { waitMs: number } | undefined {
  const from = times.findIndex((at) => at > nowMs - lengthMs && at <= nowMs); // later than now: the clock was set back
  times.splice(0, from < 0 ? times.length : from);
  const last = times.findIndex((at) => at > nowMs);
  if (last >= 0) times.length = last;
  const oldest = times[times.length - most];
  if (oldest !== undefined) return { waitMs: oldest + lengthMs - nowMs };
  times.push(nowMs);
  return undefined;
}
