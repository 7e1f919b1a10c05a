/**
 * The order of rows. Its whole state is (seed, epoch, position). A checkpoint stores it and continues with exactly the
 * next row.
 */
import { openRandom, permutation } from "../../../lib/random.ts";

export type OrderState = { seed: number; epoch: number; position: number };
export type OrderOptions = {
  rows: number;
  shuffle: boolean;
  /** The behaviour at the end of an epoch: return fewer rows, or continue with the next epoch. */
  atEnd: "short" | "wrap";
};

export type Order = {
  /** Returns the indexes of the next rows. Empty only if there are no rows at all. */
  draw: (count: number) => number[];
  state: () => OrderState;
};

export function openOrder({ rows, shuffle, atEnd }: OrderOptions, from: OrderState): Order {
  let { epoch, position } = from;
  const { seed } = from;
  let order = epochOrder(rows, { seed, epoch, shuffle });
  const next = (count: number): number[] => {
    const drawn: number[] = [];
    while (rows > 0 && drawn.length < count) {
      if (position >= rows) {
        epoch++;
        position = 0;
        order = epochOrder(rows, { seed, epoch, shuffle });
      }
      const upTo = Math.min(rows, position + count - drawn.length);
      for (; position < upTo; position++) drawn.push(order[position]!);
      if (atEnd === "short") break;
    }
    return drawn;
  };
  return { draw: next, state: () => ({ seed, epoch, position }) };
}

export function epochOrder(
  rows: number,
  { seed, epoch, shuffle }: { seed: number; epoch: number; shuffle: boolean },
): Uint32Array {
  return shuffle ? permutation(rows, openRandom(seed, epoch)) : Uint32Array.from({ length: rows }, (_, i) => i);
}

/** Returns the completed epochs plus the fraction of the current one: the metric `epoch`. */
export function epochsPassed({ epoch, position }: OrderState, rows: number): number {
  return rows === 0 ? epoch : epoch + position / rows;
}

/** Maximum draws of dynamic sampling for one generation, the first included. */
const MAX_DRAWS = 4;

/** State of dynamic sampling for one generation. */
export type Sifted<G> = { wanted: number; draws: number; sampled: number; kept: G[]; dropped: number };

export const newSift = <G>(wanted: number): Sifted<G> => ({ wanted, draws: 0, sampled: 0, kept: [], dropped: 0 });

/** Keeps groups whose rewards differ, in order and no more than wanted. Drops and counts the others. */
export function sift<G>(before: Sifted<G>, groups: readonly G[], isUseful: (group: G) => boolean): Sifted<G> {
  const useful = groups.filter(isUseful);
  return {
    wanted: before.wanted,
    draws: before.draws + 1,
    sampled: before.sampled + groups.length,
    kept: [...before.kept, ...useful].slice(0, before.wanted),
    dropped: before.dropped + groups.length - useful.length,
  };
}

/**
 * Returns how many prompts to sample next. 0: the generation is full or the limit is reached, and training uses what
 * was kept. A draw requests as many as the useful share so far requires, at most `wanted`.
 */
export function promptsToDraw({ wanted, draws, sampled, kept }: Sifted<unknown>, maxDraws = MAX_DRAWS): number {
  const missing = wanted - kept.length;
  if (missing <= 0 || draws >= maxDraws) return 0;
  if (sampled === 0) return wanted;
  const share = Math.max(kept.length / sampled, 1 / wanted);
  return Math.min(wanted, Math.ceil(missing / share));
}
