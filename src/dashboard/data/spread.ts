/** At most `most` steps from 1 to `last`, evenly spread, newest first. */
export function spread(last: number, most: number): number[] {
  if (last <= 0) return [];
  const n = Math.min(last, most);
  const steps = Array.from({ length: n }, (_, i) => (n === 1 ? last : Math.round(1 + (i * (last - 1)) / (n - 1))));
  return [...new Set(steps)].reverse();
}
