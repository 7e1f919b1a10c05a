/**
 * Packs sequences into micro-batches: rows of one length, several sequences to a row if they fit. Longest first, so
 * that the sequences of a batch have similar lengths. Pure.
 */

import { openRandom, seedOf } from "../../../lib/random.ts";
import type { Batch, Taught } from "../engine/inputs.ts";
import { pack } from "./pack.ts";
import { aligned, type Member, type Parcel, parcelsOf, type Room } from "./spans.ts";
import type { Piece, Scores } from "./types.ts";

export type Sizes = {
  /** Token limit of a micro-batch; a longer piece gets its own. */
  tokens: number;
  /**
   * Lengths and counts are rounded up to this many sizes between two powers of two. It balances the number of graphs
   * against padding.
   */
  steps: number;
  /** Store the common beginning of several pieces only once. */
  shares: boolean;
  /**
   * Common beginnings and answers begin at multiples of this in their row, and an answer is a branch even if it is alone.
   * Default 1: neither.
   */
  align?: number;
  /**
   * Cost of attention in a row: the square of its length, or only what its tokens see. In the second case there is one
   * row of any length.
   */
  attention: Room["attention"];
};

/**
 * Token i of a piece is at `start` + i, beginning with the token before the first scored one; earlier tokens are at
 * `head` + i. `sequence` is counted in its row.
 */
export type PackedPiece = Omit<Member, "offset"> & { head: number; start: number; sequence: number };
export type MicroBatch = {
  /** Tokens of a row. */
  tokens: number;
  rows: number;
  align: number;
  /** At least the number of positions with a target. */
  scored: number;
  /** Pieces in the order of their units. */
  pieces: readonly PackedPiece[];
};

type Unit = readonly Piece[];
const SHORTEST = 8;

export const roundUp = (count: number, steps: number) => rounded(count, steps, Math.ceil);
const roundDown = (count: number, steps: number) => rounded(count, steps, Math.floor);
function rounded(count: number, steps: number, to: (x: number) => number): number {
  const unit = Math.max(1, 2 ** Math.floor(Math.log2(Math.max(1, count))) / steps);
  return to(count / unit) * unit;
}

export function microBatches(units: readonly Unit[], sizes: Sizes): MicroBatch[] {
  units.forEach(mustBeSound);
  const { tokens: most, attention, shares, align = 1 } = sizes;
  const longestFirst = parcelsOf(units, { most, attention, shares, align }).sort(
    (a, b) => b.longest - a.longest || unitOf(a) - unitOf(b),
  );
  const isOneRow = attention === "seen";
  const batches: MicroBatch[] = [];
  let some: Parcel[] = [];
  let tokens = 0;
  const flush = () => {
    if (some.length > 0) batches.push(laidOut(some, isOneRow ? rowFor(some, sizes) : tokens, sizes));
    some = [];
  };
  const isFull = (all: readonly Parcel[]) => {
    if (isOneRow) return lengthOf(all) > most;
    return rowsOf(all, tokens).length > Math.max(1, roundDown(Math.floor(most / tokens), sizes.steps));
  };
  for (const parcel of longestFirst) {
    if (some.length > 0 && isFull([...some, parcel])) flush();
    if (some.length === 0) tokens = aligned(Math.max(SHORTEST, roundUp(parcel.longest, sizes.steps)), align);
    some.push(parcel);
  }
  flush();
  return batches;
}

const lengthOf = (parcels: readonly Parcel[]) => spansOf(parcels).reduce((sum, { length }) => sum + length, 0);

/** Returns one row length for all parcels. */
function rowFor(parcels: readonly Parcel[], { tokens: most, steps, align = 1 }: Sizes): number {
  const length = lengthOf(parcels);
  const rounded = Math.max(SHORTEST, roundUp(length, steps));
  return aligned(length <= most ? Math.min(most, rounded) : rounded, align);
}

const unitOf = ({ spans }: Parcel) => spans[0]!.members[0]!.unit;
const spansOf = (parcels: readonly Parcel[]) => parcels.flatMap(({ spans }) => spans);
const rowsOf = (parcels: readonly Parcel[], tokens: number) =>
  pack(
    spansOf(parcels).map(({ length }) => length),
    tokens,
  );

function mustBeSound(pieces: Unit, unit: number) {
  if (pieces.length === 0) throw new RangeError(`Unit ${unit} has no pieces`);
  for (const { tokens, from } of pieces)
    if (tokens.length < 2 || !(from >= 1 && from < tokens.length))
      throw new RangeError(`A piece of ${tokens.length} tokens cannot be scored from ${from}. Use 1 to its last token`);
}

function laidOut(parcels: readonly Parcel[], tokens: number, { steps, align = 1 }: Sizes): MicroBatch {
  const packed = rowsOf(parcels, tokens);
  const layouts: { head: number; sequence: number }[] = [];
  packed.forEach(({ spans }, row) => {
    for (const [i, { sequence, start }] of spans.entries())
      layouts[sequence] = { head: row * tokens + start, sequence: i };
  });
  const pieces = spansOf(parcels).flatMap(({ members }, i) => {
    const { head, sequence } = layouts[i]!;
    return members.map(({ offset, ...member }): PackedPiece => ({ ...member, head, sequence, start: head + offset }));
  });
  const rows = roundUp(packed.length, steps);
  const scored = pieces.reduce((sum, { piece }) => sum + piece.tokens.length - piece.from, 0);
  return { tokens, rows, align, scored: Math.min(rows * tokens, aligned(roundUp(scored, steps), align)), pieces };
}

/** `dropoutSeed` null: no dropout. */
export function batchOf({ tokens: length, rows, align, pieces }: MicroBatch, dropoutSeed: number | null): Batch {
  const count = length * rows;
  const batch = {
    ids: new Int32Array(count),
    positions: new Int32Array(count),
    sequences: new Int32Array(count).fill(-1),
    branches: new Int32Array(count),
    targets: new Int32Array(count).fill(-1),
  };
  const dropSeeds = new Uint32Array(dropoutSeed === null ? 0 : count);
  for (const { piece, unit, index, head, start, sequence, branch } of pieces) {
    const { tokens, from } = piece;
    for (let i = 0; i < tokens.length - 1; i++) {
      const isOwn = i >= from - 1;
      const at = isOwn ? start + i : head + i;
      batch.ids[at] = tokens[i]!;
      batch.positions[at] = i;
      batch.sequences[at] = sequence;
      if (isOwn) batch.branches[at] = branch;
      if (isOwn) batch.targets[at] = tokens[i + 1]!;
      if (dropoutSeed !== null) dropSeeds[at] = seedOf(dropoutSeed, unit, index, i);
    }
  }
  fillGaps(batch, align);
  return dropoutSeed === null ? batch : { ...batch, dropSeeds };
}

/** A gap before the next answer of a sequence is a branch of its own: no token of another one sees it. */
function fillGaps({ sequences, branches }: Pick<Batch, "sequences"> & { branches: Int32Array }, align: number) {
  for (let at = 1; at < sequences.length; at++) {
    if (at % align === 0 || sequences[at]! >= 0) continue;
    sequences[at] = sequences[at - 1]!;
    if (sequences[at]! >= 0) branches[at] = GAP;
  }
}

const GAP = -1;
const NOISE = 3; // distinguishes this draw from the dropout with the same seed

/**
 * NEFTune: uniform in ±alpha / √(tokens · width) of each piece. It depends only on the seed, the piece and the position,
 * not on the layout of the batch.
 */
export function noiseOf(
  { tokens: length, rows, pieces }: MicroBatch,
  { alpha, width, seed }: { alpha: number; width: number; seed: number },
): Float32Array {
  const noise = new Float32Array(length * rows * width);
  for (const { piece, unit, index, head, start } of pieces) {
    const { tokens, from } = piece;
    const bound = alpha / Math.sqrt(tokens.length * width);
    for (let i = 0; i < tokens.length - 1; i++) {
      const random = openRandom(seed, NOISE, unit, index, i);
      const at = (i >= from - 1 ? start + i : head + i) * width;
      for (let j = 0; j < width; j++) noise[at + j] = (2 * random() - 1) * bound;
    }
  }
  return noise;
}

/** Cuts a piece's values out of those of a batch. */
export const cut = (values: Float32Array, { piece, start }: PackedPiece): Float32Array =>
  values.slice(start + piece.from - 1, start + piece.tokens.length - 1);

/** Cuts a piece's rows out of those of a batch. */
export const cutRows = (rows: Float32Array, { piece, start }: PackedPiece, width: number): Float32Array =>
  rows.slice((start + piece.from - 1) * width, (start + piece.tokens.length - 1) * width);

/** Puts what the teacher says of each unit's only piece at its positions. */
export function taughtOf({ tokens, rows, pieces }: MicroBatch, width: number, of: (unit: number) => Taught): Taught {
  const taught = { states: new Float32Array(tokens * rows * width), weights: new Float32Array(tokens * rows) };
  for (const { unit, start, piece } of pieces) {
    const { states, weights } = of(unit);
    taught.states.set(states, (start + piece.from - 1) * width);
    taught.weights.set(weights, start + piece.from - 1);
  }
  return taught;
}

/** Puts the weights of the pieces at their positions. */
export function weightsOf(
  micro: MicroBatch,
  weigh: (unit: number, scores: Scores[]) => readonly Float32Array[],
  scores: readonly Scores[],
) {
  const weights = new Float32Array(micro.tokens * micro.rows);
  for (let first = 0; first < micro.pieces.length; ) {
    const { unit } = micro.pieces[first]!;
    let end = first + 1;
    while (micro.pieces[end]?.unit === unit) end++;
    const unitWeights = weigh(unit, scores.slice(first, end));
    for (let i = first; i < end; i++) put(weights, micro.pieces[i]!, unitWeights[i - first]);
    first = end;
  }
  return weights;
}

function put(weights: Float32Array, { piece, unit, start }: PackedPiece, values: Float32Array | undefined) {
  const wanted = piece.tokens.length - piece.from;
  if (values?.length !== wanted)
    throw new RangeError(`Unit ${unit}: ${values?.length ?? "no"} weights for ${wanted} scored tokens`);
  weights.set(values, start + piece.from - 1);
}
