/** Distances between two samples of numbers: how far a distribution has moved from its reference. Pure. */

const BINS = 10;
/** Added to an empty bin, as a share of one observation. Without it the logarithm of zero would be infinite. */
const EMPTY = 0.5;

const ascending = (values: readonly number[]): number[] => values.toSorted((a, b) => a - b);

/** Upper bounds of the bins: the deciles of the reference, or its values if it has few. One more bin is above them. */
function boundsOf(reference: readonly number[]): number[] {
  const sorted = ascending(reference);
  const distinct = [...new Set(sorted)];
  if (distinct.length <= BINS) return distinct;
  const decile = (i: number) => sorted[Math.ceil((i * sorted.length) / BINS) - 1] as number;
  return [...new Set(Array.from({ length: BINS }, (_, i) => decile(i + 1)))];
}

function sharesOf(values: readonly number[], bounds: readonly number[]): number[] {
  const counts = new Array<number>(bounds.length + 1).fill(0);
  for (const value of values) {
    let bin = 0;
    while (bin < bounds.length && value > (bounds[bin] as number)) bin++;
    counts[bin] = (counts[bin] as number) + 1;
  }
  return counts.map((count) => Math.max(count, EMPTY) / values.length);
}

/**
 * Population stability index. Below 0.1 the distribution is stable, above 0.25 it has moved. Null if a sample is empty.
 * Values above the largest one of the reference have a bin of their own.
 */
export function psi(current: readonly number[], reference: readonly number[]): number | null {
  if (current.length === 0 || reference.length === 0) return null;
  const bounds = boundsOf(reference);
  const expected = sharesOf(reference, bounds);
  const actual = sharesOf(current, bounds);
  let sum = 0;
  for (let i = 0; i <= bounds.length; i++) {
    const [p, q] = [actual[i] as number, expected[i] as number];
    const isEmpty = p * current.length <= EMPTY && q * reference.length <= EMPTY;
    if (!isEmpty) sum += (p - q) * Math.log(p / q);
  }
  return sum;
}

/** Kolmogorov–Smirnov: the largest distance between the two distribution functions, 0 to 1. Null if a sample is empty. */
export function ks(current: readonly number[], reference: readonly number[]): number | null {
  if (current.length === 0 || reference.length === 0) return null;
  const [a, b] = [ascending(current), ascending(reference)];
  let [i, j, largest] = [0, 0, 0];
  while (i < a.length && j < b.length) {
    const at = Math.min(a[i] as number, b[j] as number);
    while (i < a.length && (a[i] as number) <= at) i++;
    while (j < b.length && (b[j] as number) <= at) j++;
    largest = Math.max(largest, Math.abs(i / a.length - j / b.length));
  }
  return largest;
}
