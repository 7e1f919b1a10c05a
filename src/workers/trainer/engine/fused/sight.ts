/** The tokens that each token attends to, in the layout of the attention kernels. Pure. */
import { ATTENTION } from "../../../../native/cuda/kernels.ts";
import type { Batch } from "../inputs.ts";

/** Numbers per token, and per tile of keys: struct Seen and struct KeyTile of the kernels. */
export const SEEN = 4;
export const TILE = 2;
export const tilesOf = (tokens: number) => Math.ceil(tokens / ATTENTION.keys);

/**
 * For each token, counted in its row: [start, end) is the common beginning of its sequence's branches, [own, itself]
 * the rest that it attends to. Without branches all of it is its own. Padding attends to itself.
 */
export function seenOf({ sequences, branches }: Pick<Batch, "sequences" | "branches">, tokens: number): Int32Array {
  const seen = new Int32Array(sequences.length * SEEN);
  let [start, end, ownStart, before] = [0, 0, 0, 0];
  for (let i = 0, place = 0; i < sequences.length; i++, place = place + 1 === tokens ? 0 : place + 1) {
    const sequence = sequences[i] as number;
    const branch = branches === undefined ? 0 : (branches[i] as number);
    if (place === 0 || sequence < 0 || sequence !== sequences[i - 1]) {
      start = end = ownStart = place;
      before = 0;
    }
    if (branch === 0 && before !== 0) throw new RangeError("The common part of a sequence must precede its branches");
    if (branch !== 0 && branch !== before) {
      if (before === 0) end = place;
      ownStart = place;
    }
    before = branch;
    const at = i * SEEN;
    seen[at] = start;
    seen[at + 1] = end;
    seen[at + 2] = ownStart;
  }
  return seen;
}

/**
 * For each tile of keys: its first key, and the end of the queries that attend to it, counted in the row. Tiles with
 * the most queries come first in each row: their blocks take longest. `window`: positions that a token sees.
 */
export function keyTilesOf(seen: Int32Array, tokens: number, window = Number.POSITIVE_INFINITY): Int32Array {
  const count = tilesOf(tokens);
  const rows = seen.length / SEEN / tokens;
  const all = new Int32Array(rows * count * TILE);
  for (let row = 0; row < rows; row++) {
    const ends = endsOf(seen.subarray(row * tokens * SEEN, (row + 1) * tokens * SEEN), count, window);
    const queries = (tile: number) => (ends[tile] as number) - tile * ATTENTION.keys;
    const order = [...ends.keys()].sort((a, b) => queries(b) - queries(a) || a - b);
    all.set(
      order.flatMap((tile) => [tile * ATTENTION.keys, ends[tile] as number]),
      row * count * TILE,
    );
  }
  return all;
}

/**
 * True if the longest tile takes twice as long as an even distribution would, with two blocks per multiprocessor.
 * Summing the heads' separate results takes time too.
 */
export function isUneven(tiles: Int32Array, of: { heads: number; keyHeads: number }, multiprocessors: number): boolean {
  let [longest, all] = [0, 0];
  for (let i = 0; i < tiles.length; i += TILE) {
    const queries = (tiles[i + 1] as number) - (tiles[i] as number);
    longest = Math.max(longest, queries);
    all += queries;
  }
  return of.heads > of.keyHeads && longest * multiprocessors > all * of.keyHeads;
}

function endsOf(seen: Int32Array, count: number, window: number): Int32Array {
  const ends = new Int32Array(count);
  const tokens = seen.length / SEEN;
  let [endOfAll, endOfOwn, nextStart, nextOwn, branches] = [tokens, tokens, -1, -1, false];
  for (let i = tokens - 1; i >= 0; i--) {
    const start = seen[i * SEEN] as number;
    const answerStart = seen[i * SEEN + 2] as number;
    if (nextStart !== start) {
      endOfAll = i + 1;
      branches = answerStart !== start;
    }
    if (nextStart !== start || nextOwn !== answerStart) endOfOwn = i + 1;
    const tile = Math.floor(i / ATTENTION.keys);
    const isCommon = answerStart === start && branches; // positions of a branch begin behind it
    const near = isCommon ? tokens : i + window;
    ends[tile] = Math.max(ends[tile] as number, Math.min(near, answerStart === start ? endOfAll : endOfOwn));
    [nextStart, nextOwn] = [start, answerStart];
  }
  return ends;
}
