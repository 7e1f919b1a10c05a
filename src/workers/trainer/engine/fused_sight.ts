/** Who sees whom, as the kernels of attention read it. Pure. */
import { ATTENTION } from "../../../native/kernels.ts";
import type { Batch } from "./inputs.ts";

/** Numbers for a token, and for a tile of keys: struct Seen and struct KeyTile of the kernels. */
export const SEEN = 4;
export const TILE = 2;
export const tilesOf = (tokens: number) => Math.ceil(tokens / ATTENTION.keys);

/**
 * Of each token, counted in its row: [start, end) is what all branches of its sequence begin with, [own, itself] the
 * rest of what it sees. Without branches all of it is its own. Padding sees itself.
 */
export function seenOf({ sequences, branches }: Pick<Batch, "sequences" | "branches">, tokens: number): Int32Array {
  const seen = new Int32Array(sequences.length * SEEN);
  for (let i = 0; i < sequences.length; i++) {
    const place = i % tokens;
    const [sequence, branch] = [sequences[i] as number, branches?.[i] ?? 0];
    const goesOn = place > 0 && sequence >= 0 && sequence === sequences[i - 1];
    const before = goesOn ? (branches?.[i - 1] ?? 0) : 0;
    if (goesOn && branch === 0 && before !== 0)
      throw new RangeError("What all branches of a sequence see comes before them");
    const [start, end, own] = goesOn ? seen.subarray((i - 1) * SEEN, i * SEEN) : [place, place, place];
    const isFirst = branch !== 0 && branch !== before; // of its branch
    seen.set(
      [start as number, isFirst && before === 0 ? place : (end as number), isFirst ? place : (own as number)],
      i * SEEN,
    );
  }
  return seen;
}

/**
 * Of each tile of keys, the first of them and one behind the last query that sees any, counted in the row. In each row
 * those come first that the most queries see: a block for one of them takes longest.
 */
export function keyTilesOf(seen: Int32Array, tokens: number): Int32Array {
  const count = tilesOf(tokens);
  const rows = seen.length / SEEN / tokens;
  const all = new Int32Array(rows * count * TILE);
  for (let row = 0; row < rows; row++) {
    const ends = endsOf(seen.subarray(row * tokens * SEEN, (row + 1) * tokens * SEEN), count);
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
 * Whether the tile with the most queries takes a block twice as long as all would take if they were spread evenly, two
 * blocks on a multiprocessor. To add up what each head has by itself takes time too.
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

function endsOf(seen: Int32Array, count: number): Int32Array {
  const ends = new Int32Array(count);
  const tokens = seen.length / SEEN;
  let [endOfAll, endOfOwn] = [tokens, tokens];
  for (let i = tokens - 1; i >= 0; i--) {
    const [start, , own] = seen.subarray(i * SEEN, (i + 1) * SEEN);
    const [nextStart, , nextOwn] = seen.subarray((i + 1) * SEEN, (i + 2) * SEEN);
    if (nextStart !== start) endOfAll = i + 1;
    if (nextStart !== start || nextOwn !== own) endOfOwn = i + 1;
    const tile = Math.floor(i / ATTENTION.keys);
    ends[tile] = Math.max(ends[tile] as number, own === start ? endOfAll : endOfOwn);
  }
  return ends;
}
