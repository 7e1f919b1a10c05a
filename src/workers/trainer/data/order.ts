/**
 * In what order rows are taken. The whole state is (seed, epoch, position): written into a checkpoint, it continues
 * with the very row that would have come next.
 */
import { openRandom, permutation } from "../../../lib/random.ts";

export type OrderState = { seed: number; epoch: number; position: number };
export type OrderOptions = {
  rows: number;
  shuffle: boolean;
  /** What a draw does at the end of an epoch: give fewer rows, or go on into the next. */
  atEnd: "short" | "wrap";
};

export type Order = {
  /** The next rows, by index. Empty only when there are no rows at all. */
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

/** Epochs passed, with the fraction of the running one: the metric `epoch`. */
export function epochsPassed({ epoch, position }: OrderState, rows: number): number {
  return rows === 0 ? epoch : epoch + position / rows;
}

/** How many draws dynamic sampling may make for one generation, the first included. */
export const MAX_DRAWS = 4;

/** What dynamic sampling has so far for one generation. */
export type Sifted<G> = { wanted: number; draws: number; sampled: number; kept: G[]; dropped: number };

export const newSift = <G>(wanted: number): Sifted<G> => ({ wanted, draws: 0, sampled: 0, kept: [], dropped: 0 });

/** Groups that differ in reward are kept, in order and no more than wanted; the others are dropped and counted. */
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
 * How many prompts to sample next; 0 when the generation is full or the bound is reached, and training goes on with
 * what was kept. A draw asks for as many as the useful share so far makes necessary, at most `wanted`.
 */
export function promptsToDraw({ wanted, draws, sampled, kept }: Sifted<unknown>, maxDraws = MAX_DRAWS): number {
  const missing = wanted - kept.length;
  if (missing <= 0 || draws >= maxDraws) return 0;
  if (sampled === 0) return wanted;
  const share = Math.max(kept.length / sampled, 1 / wanted);
  return Math.min(wanted, Math.ceil(missing / share));
}
