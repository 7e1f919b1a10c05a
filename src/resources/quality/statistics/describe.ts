import { openRandom } from "../../../lib/random.ts";
import { takingTurns } from "../../../lib/turns.ts";

export type Interval = { low: number; high: number };

/** The arithmetic mean; NaN for no values. */
export function mean(values: readonly number[]): number {
  let sum = 0;
  for (const value of values) sum += value;
  return sum / values.length;
}

/** The sample variance, divided by n − 1; NaN for fewer than two values. */
export function variance(values: readonly number[]): number {
  if (values.length < 2) return Number.NaN;
  const center = mean(values);
  let sum = 0;
  for (const value of values) sum += (value - center) ** 2;
  return sum / (values.length - 1);
}

/** The standard error of the mean; NaN for fewer than two values. */
export function standardError(values: readonly number[]): number {
  return Math.sqrt(variance(values) / values.length);
}

/** Linear interpolation between the two nearest order statistics, as NumPy's default. `sorted` is not empty. */
export function quantile(sorted: ArrayLike<number>, fraction: number): number {
  const position = (sorted.length - 1) * fraction;
  const below = Math.floor(position);
  const low = sorted[below]!;
  const high = sorted[Math.min(below + 1, sorted.length - 1)]!;
  return low + (high - low) * (position - below);
}

/** Above this many values the interval comes from the normal distribution: the two agree, and a bootstrap is slow. */
const BOOTSTRAP_MAX_VALUES = 1_000;
const NORMAL_975 = 1.959963984540054;

/**
 * The 95 % interval of the mean by the percentile bootstrap. Null for fewer than two values.
 * The same values, seed and count of resamples give the same interval.
 */
export async function bootstrapInterval(
  values: readonly number[],
  options: { seed: number; resamples?: number },
): Promise<Interval | null> {
  const n = values.length;
  if (n < 2) return null;
  if (n > BOOTSTRAP_MAX_VALUES) {
    const margin = NORMAL_975 * standardError(values);
    return { low: mean(values) - margin, high: mean(values) + margin };
  }
  const resamples = options.resamples ?? 2_000;
  const random = openRandom(options.seed);
  const source = Float64Array.from(values);
  const means = new Float64Array(resamples);
  const turn = takingTurns();
  for (let i = 0; i < resamples; i++) {
    await turn();
    let sum = 0;
    for (let j = 0; j < n; j++) sum += source[Math.floor(random() * n)]!;
    means[i] = sum / n;
  }
  means.sort();
  return { low: quantile(means, 0.025), high: quantile(means, 0.975) };
}
