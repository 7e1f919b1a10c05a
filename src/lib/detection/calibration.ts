/**
 * Turns the logits of crops into one calibrated score: pooled, divided by a temperature, then mapped by a monotonic
 * table. The JSON file beside a model's weights holds the parameters; training computes the same
 * (`scripts/detector/calibrate.py`).
 */
import { z } from "zod";

/** Pools the logits of one image, highest first. `top_k` and `top_fraction` take the mean of the highest. */
export const Pooling = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("mean") }),
  z.object({ kind: z.literal("top_k"), k: z.int().positive() }),
  z.object({ kind: z.literal("top_fraction"), fraction: z.number().gt(0).max(1) }),
  /** Weights are proportional to exp(beta · logit): 0 gives the mean, a large beta the maximum. */
  z.object({ kind: z.literal("softmax"), beta: z.number().min(0) }),
]);
export type Pooling = z.infer<typeof Pooling>;

type Point = readonly [x: number, y: number];

const isRising = (table: readonly Point[]) =>
  table.every(([x, y], i) => {
    const before = table[i - 1];
    return before === undefined || (x >= before[0] && y >= before[1]);
  });

/** Points (probability, calibrated), both rising. Linear between two points, constant outside. */
export const Isotonic = z
  .array(z.tuple([z.number().min(0).max(1), z.number().min(0).max(1)]))
  .refine((table) => isRising(table), "expected rising points");

export const Calibration = z.object({
  version: z.string().min(1),
  pooling: Pooling,
  temperature: z.number().positive(),
  isotonic: Isotonic,
});
export type Calibration = z.infer<typeof Calibration>;

export function pool(logits: ArrayLike<number>, pooling: Pooling): number {
  const sorted = Array.from(logits).sort((a, b) => b - a);
  if (sorted.length === 0) throw new Error("There are no logits to pool");
  switch (pooling.kind) {
    case "mean":
      return mean(sorted);
    case "top_k":
      return mean(sorted.slice(0, pooling.k));
    case "top_fraction":
      return mean(sorted.slice(0, Math.max(1, Math.ceil(pooling.fraction * sorted.length))));
    case "softmax": {
      const weights = sorted.map((logit) => Math.exp(pooling.beta * (logit - sorted[0]!)));
      return sorted.reduce((sum, logit, i) => sum + logit * weights[i]!, 0) / weights.reduce((a, b) => a + b, 0);
    }
  }
}

/** Returns the calibrated score of one image. Throws if a model returned NaN. */
export const calibrate = (logits: ArrayLike<number>, calibration: Calibration): number =>
  calibratePooled(pool(logits, calibration.pooling), calibration);

export type Curve = Pick<Calibration, "temperature" | "isotonic">;

export function calibratePooled(pooled: number, { temperature, isotonic }: Curve): number {
  if (Number.isNaN(pooled)) throw new Error("The model returned NaN");
  return interpolate(isotonic, sigmoid(pooled / temperature));
}

export const sigmoid = (x: number) => 1 / (1 + Math.exp(-x));

function interpolate(table: readonly Point[], x: number): number {
  const [first, last] = [table[0], table.at(-1)];
  if (!first || !last) return x; // without a table nothing changes
  if (x <= first[0]) return first[1];
  if (x >= last[0]) return last[1];
  const right = table.findIndex(([at]) => at >= x);
  const [[x0, y0], [x1, y1]] = [table[right - 1]!, table[right]!];
  return y0 + ((x - x0) / (x1 - x0)) * (y1 - y0);
}

const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
