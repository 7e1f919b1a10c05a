/** Masks of attention: which tokens each token attends to. Pure. */
import type { Batch, GraphShape } from "./inputs.ts";

/** Everything that the masks depend on. Positions count only if some layers see a window of them. */
export type Packing = Pick<Batch, "sequences" | "branches" | "positions">;

export const copyOf = ({ sequences, branches, positions }: Packing): Packing => ({
  sequences: sequences.slice(),
  positions: positions.slice(),
  ...(branches ? { branches: branches.slice() } : {}),
});

export const isSame = (a: Packing, b: Packing, window: number | null) =>
  a.sequences.every((value, i) => value === b.sequences[i] && (a.branches?.[i] ?? 0) === (b.branches?.[i] ?? 0)) &&
  (window === null || a.positions.every((value, i) => value === b.positions[i]));

/** [keys, queries, 1, rows]. Padding attends to itself: a row of only -∞ has no softmax. */
export function maskOf({ sequences, branches }: Packing, shape: GraphShape, from: number): Float32Array {
  const { tokens, rows, attentionBlock } = shape;
  const queries = Math.min(attentionBlock, tokens - from);
  const mask = new Float32Array(tokens * queries * rows).fill(Number.NEGATIVE_INFINITY);
  for (let row = 0; row < rows; row++) {
    const branchOf = (place: number) => branches?.[row * tokens + place] ?? 0;
    let [start, end, branch] = [0, 0, 0]; // the common part of the query's sequence, and the start of its branch
    for (let query = 0; query < from + queries; query++) {
      const sequence = sequences[row * tokens + query] as number;
      const isNew = sequence < 0 || sequence !== sequences[row * tokens + start];
      if (isNew) start = query;
      if (branchOf(query) === 0) end = query + 1;
      if (isNew || branchOf(query) !== branchOf(branch)) branch = query;
      const at = (row * queries + query - from) * tokens;
      if (query < from) continue;
      mask.fill(0, at + start, at + end);
      mask.fill(0, at + branch, at + query + 1);
    }
  }
  return mask;
}

type Narrowing = { window: number /** First query of the mask. */; from: number };

/** Hides the keys that are `window` or more positions before their query, in place. */
export function narrow(mask: Float32Array, { positions }: Packing, { tokens, rows }: GraphShape, of: Narrowing) {
  const queries = mask.length / tokens / rows;
  for (let row = 0; row < rows; row++)
    for (let query = 0; query < queries; query++) {
      const first = (positions[row * tokens + of.from + query] as number) - of.window + 1;
      const at = (row * queries + query) * tokens;
      for (let key = 0; key < of.from + query; key++)
        if ((positions[row * tokens + key] as number) < first) mask[at + key] = Number.NEGATIVE_INFINITY;
    }
  return mask;
}
