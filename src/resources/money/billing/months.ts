/** Calendar months of UTC. */

/** `2026-01` */
export const monthOf = (ms: number): string => new Date(ms).toISOString().slice(0, 7);

const startOf = (ms: number, later: number): number => {
  const date = new Date(ms);
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + later, 1);
};
export const monthStart = (ms: number): number => startOf(ms, 0);
export const nextMonthStart = (ms: number): number => startOf(ms, 1);

export type Share = { month: string; amount: number };

/**
 * Splits an amount for the `ms` before `until` by the time that lies in each month. Whole numbers, whose sum is the
 * amount.
 */
export function byMonth({ until, ms, amount }: { until: number; ms: number; amount: number }): Share[] {
  const from = until - ms;
  const shares: Share[] = [];
  let shared = 0;
  for (let at = from; at < until; ) {
    const end = Math.min(until, nextMonthStart(at));
    const upTo = end === until ? amount : Number((BigInt(amount) * BigInt(end - from)) / BigInt(ms));
    shares.push({ month: monthOf(at), amount: upTo - shared });
    shared = upTo;
    at = end;
  }
  return shares;
}
