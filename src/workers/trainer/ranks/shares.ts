/** Divides work among ranks. The results depend only on the sizes, so that all ranks know all shares. Pure. */

export type Range = { from: number; to: number };

/**
 * Splits a list into one range for each rank, in order. Each item goes to the rank in whose equal part of the total
 * cost its middle lies.
 */
export function rangesOf(costs: readonly number[], count: number): Range[] {
  const total = costs.reduce((a, b) => a + b, 0);
  let before = 0;
  const owners = costs.map((cost) => {
    const middle = before + cost / 2;
    before += cost;
    return Math.min(count - 1, Math.floor((middle / total) * count));
  });
  return Array.from({ length: count }, (_, rank) => ({
    from: owners.filter((owner) => owner < rank).length,
    to: owners.filter((owner) => owner <= rank).length,
  }));
}

/** The part of each item: the part with the least so far. */
export function partsOf(sizes: readonly number[], count: number): number[] {
  const load = Array.from({ length: count }, () => 0);
  return sizes.map((size) => {
    const least = load.indexOf(Math.min(...load));
    load[least]! += size;
    return least;
  });
}
