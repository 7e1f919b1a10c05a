/**
 * Spans without a gap in a row: one piece, or pieces with a common beginning that is stored once. Eight answers to a
 * question consist mostly of the question. Pure.
 */
import type { Piece } from "./types.ts";

type Unit = readonly Piece[];

/**
 * The first `from - 1` tokens are at the start of the span, every other token i at `offset` + i. `branch` 0: nothing is
 * shared.
 */
export type Member = { piece: Piece; unit: number; index: number; offset: number; branch: number };
export type Span = { length: number; members: readonly Member[] };
/** Units that must stay together. */
export type Parcel = { spans: readonly Span[]; longest: number };

/** The last token of a piece is only a target. */
const lengthOf = ({ tokens }: Piece) => tokens.length - 1;
/** The token before the first scored one predicts it, so it is never shared. */
const headOf = ({ from }: Piece) => from - 1;

const LEAST_HEAD = 4;
/**
 * Maximum length of a shared row, or its excess over the longest piece. If attention costs the square, few tokens; if
 * it costs what is seen, as many as one kernel block can process before the others finish.
 */
const ROW = { squared: 128, seen: 4096 } as const;
const LONGER = 1.5;

/** Token limit of a micro-batch, and the cost of attention. */
export type Room = { most: number; attention: keyof typeof ROW; align: number };

export const aligned = (length: number, align: number) => Math.ceil(length / align) * align;

export function parcelsOf(units: readonly Unit[], { shares, ...room }: Room & { shares: boolean }): Parcel[] {
  const least = room.align > 1 ? 0 : LEAST_HEAD;
  const alike = new Map<string, number[]>();
  const parcels: Parcel[] = [];
  units.forEach((pieces, unit) => {
    const head = shares ? commonHead(pieces, least) : null;
    if (head === null) parcels.push(apart(pieces, unit));
    else if (!alike.get(head)?.push(unit)) alike.set(head, [unit]);
  });
  for (const which of alike.values()) parcels.push(...together(units, which, room));
  return parcels;
}

/** Returns null if the pieces have no common beginning, or too short a one. */
function commonHead(pieces: Unit, least: number): string | null {
  const heads = pieces.map((piece) => piece.tokens.subarray(0, headOf(piece)).join());
  return headOf(pieces[0]!) >= least && heads.every((head) => head === heads[0]) ? heads[0]! : null;
}

function apart(pieces: Unit, unit: number): Parcel {
  const spans = pieces.map(
    (piece, index): Span => ({
      length: lengthOf(piece),
      members: [{ piece, unit, index, offset: 0, branch: 0 }],
    }),
  );
  return { spans, longest: Math.max(...pieces.map(lengthOf)) };
}

/** Puts as many units into a span as a row should hold. */
function together(units: readonly Unit[], which: readonly number[], { most, attention, align }: Room): Parcel[] {
  const longest = Math.max(...which.flatMap((unit) => units[unit]!.map(lengthOf)));
  const room = Math.min(Math.max(ROW[attention], LONGER * longest), Math.max(most, longest));
  const head = headOf(units[which[0]!]![0]!);
  const begin = aligned(head, align);
  const rest = (unit: number) => units[unit]!.reduce((sum, piece) => sum + aligned(lengthOf(piece) - head, align), 0);
  const parcels: Parcel[] = [];
  let some: number[] = [];
  let length = begin;
  const flush = () => {
    const [only = 0] = some;
    const isAlone = align === 1 && some.length === 1 && (units[only]!.length === 1 || length > room);
    if (isAlone) parcels.push(apart(units[only]!, only));
    else if (some.length > 0) parcels.push(sharing(units, some, head, align));
    [some, length] = [[], begin];
  };
  for (const unit of which) {
    if (length + rest(unit) > room) flush();
    some.push(unit);
    length += rest(unit);
  }
  flush();
  return parcels;
}

function sharing(units: readonly Unit[], which: readonly number[], head: number, align: number): Parcel {
  const pieces = which.flatMap((unit) => units[unit]!.map((piece, index) => ({ piece, unit, index })));
  let length = aligned(head, align);
  const members = pieces.map((each, i): Member => {
    const offset = length - head;
    length += aligned(lengthOf(each.piece) - head, align);
    return { ...each, offset, branch: i + 1 };
  });
  return { spans: [{ length, members }], longest: length };
}
