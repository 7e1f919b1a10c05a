/** Maps a pooled logit to a score: divided by a temperature, then by a monotonic table. */
import { z } from "zod";

type Point = readonly [x: number, y: number];

const isRising = (table: readonly Point[]) =>
  table.every(([x, y], i) => {
    const before = table[i - 1];
    return before === undefined || (x >= before[0] && y >= before[1]);
  });

const MOST_POINTS = 10_000;

/** Points (probability, calibrated), both rising. Linear between two points, constant outside. */
export const Isotonic = z
  .array(z.tuple([z.number().min(0).max(1), z.number().min(0).max(1)]))
  .max(MOST_POINTS)
  .refine((table) => isRising(table), "expected rising points");

export const Curve = z.object({ temperature: z.number().positive(), isotonic: Isotonic });
export type Curve = z.infer<typeof Curve>;

/** Throws if a model returned NaN. */
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
