/** The cost of a suggestion grows with the length of the name, and a longer name is no typing mistake. */
export const LONGEST_NAME = 64;
/** Names of one request that are compared with the known ones. Further names get no suggestion. */
export const MOST_SUGGESTED = 20;
const MOST_CANDIDATES = 1_000;

/** The candidate closest to a mistyped name, or undefined when nothing is close enough to be worth suggesting. */
export function nearest(name: string, candidates: Iterable<string>): string | undefined {
  if (name.length > LONGEST_NAME) return undefined;
  let best: string | undefined;
  let bestDistance = Number.POSITIVE_INFINITY;
  let compared = 0;
  for (const candidate of candidates) {
    if (++compared > MOST_CANDIDATES) break;
    const most = Math.max(2, Math.floor(candidate.length / 3));
    const distance = editDistance(name.toLowerCase(), candidate.toLowerCase(), Math.min(most, bestDistance - 1));
    if (distance < bestDistance) [best, bestDistance] = [candidate, distance];
  }
  return best;
}

/**
 * Insertions, deletions, substitutions and swaps of neighbours, each counted once. More than `most` of them are
 * Infinity, which is found sooner.
 */
export function editDistance(a: string, b: string, most = Number.POSITIVE_INFINITY): number {
  if (Math.abs(a.length - b.length) > most) return Number.POSITIVE_INFINITY;
  let before: number[] = [];
  let previous = Array.from({ length: b.length + 1 }, (_, i) => i);
  let [least, leastBefore] = [0, 0];
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1];
      let cost = Math.min(row[j - 1]! + 1, previous[j]! + 1, previous[j - 1]! + (same ? 0 : 1));
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) cost = Math.min(cost, before[j - 2]! + 1);
      row.push(cost);
    }
    [before, previous] = [previous, row];
    [leastBefore, least] = [least, Math.min(...row)];
    if (least > most && leastBefore > most) return Number.POSITIVE_INFINITY; // a swap reaches two rows back
  }
  const distance = previous[b.length]!;
  return distance > most ? Number.POSITIVE_INFINITY : distance;
}
