import { expect, test } from "bun:test";
import { openRandom } from "../../../../lib/random.ts";
import { ATTENTION } from "../../../../native/cuda/kernels.ts";
import { isUneven, keyTilesOf, SEEN, seenOf, TILE, tilesOf } from "./sight.ts";

const random = openRandom(4);
const upTo = (most: number) => 1 + Math.floor(random() * most);

/** Rows of sequences of any lengths with any number of branches, and padding. */
function drawn(tokens: number, rows: number, longest: number) {
  const batch = { sequences: new Int32Array(tokens * rows).fill(-1), branches: new Int32Array(tokens * rows) };
  for (let row = 0; row < rows; row++) {
    const end = tokens - upTo(9);
    for (let [at, sequence] = [0, 0]; at < end; sequence++) {
      const branches = random() < 0.3 ? 0 : upTo(5);
      for (let branch = 0; branch <= branches; branch++)
        for (let left = upTo(longest); left > 0 && at < end; left--, at++) {
          batch.sequences[row * tokens + at] = sequence;
          batch.branches[row * tokens + at] = branch;
        }
    }
  }
  return batch;
}
type Drawn = ReturnType<typeof drawn>;

const sees = ({ sequences, branches }: Drawn, query: number, key: number) => {
  if (key === query) return true;
  const isOne = key < query && sequences[query] !== -1 && sequences[query] === sequences[key];
  return isOne && (branches[key] === 0 || branches[key] === branches[query]);
};

const CASES = [
  [300, 2, 60],
  [200, 1, 3],
  [513, 1, 190],
  [64, 3, 20],
] as const;

test.each(CASES)(
  "with %d tokens in %d rows, each token sees its sequence's beginning and its own branch",
  (tokens, rows, most) => {
    const batch = drawn(tokens, rows, most);
    const seen = seenOf(batch, tokens);
    let last = [0, 0, 0];
    for (let i = 0; i < tokens * rows; i++) {
      const [start = 0, end = 0, own = 0] = seen.subarray(i * SEEN, (i + 1) * SEEN);
      const row = i - (i % tokens);
      const found = Array.from({ length: tokens }, (_, k) => k >= start && row + k <= i && (k < end || k >= own));
      expect(found).toEqual(Array.from({ length: tokens }, (_, k) => sees(batch, i, row + k)));
      if (i === row) last = [0, 0, 0];
      expect([start, end, own].every((value, n) => value >= (last[n] as number)) && end <= own).toBe(true);
      last = [start, end, own];
    }
  },
);

test.each(CASES)(
  "with %d tokens in %d rows, all tokens that see a tile of keys are listed, most first",
  (tokens, rows, most) => {
    const batch = drawn(tokens, rows, most);
    const tiles = keyTilesOf(seenOf(batch, tokens), tokens);
    const count = tilesOf(tokens);
    for (let row = 0; row < rows; row++) {
      const found = Array.from(
        { length: count },
        (_, i) => [...tiles.subarray((row * count + i) * TILE, (row * count + i + 1) * TILE)] as [number, number],
      );
      expect(found.map(([first]) => first).sort((a, b) => a - b)).toEqual(
        Array.from({ length: count }, (_, i) => i * ATTENTION.keys),
      );
      const queries = found.map(([first, end]) => end - first);
      expect(queries).toEqual(queries.toSorted((a, b) => b - a));
      for (const [first, end] of found) {
        const keys = Array.from(
          { length: Math.min(ATTENTION.keys, tokens - first) },
          (_, k) => row * tokens + first + k,
        );
        const seeing = (query: number) => keys.some((key) => sees(batch, row * tokens + query, key));
        const all = Array.from({ length: tokens }, (_, query) => query);
        expect(all.filter(seeing)).toEqual(all.slice(first, end)); // and there is no gap
      }
    }
  },
);

test.each([5, 20])("with a window of %d, no token that sees a key is left out, and distant ones are", (window) => {
  const tokens = 300;
  const batch = drawn(tokens, 1, 120);
  const seen = seenOf(batch, tokens);
  const positionOf = (i: number) => {
    const [start = 0, end = 0, own = 0] = seen.subarray(i * SEEN, (i + 1) * SEEN);
    return i - own + (own === start ? 0 : end - start);
  };
  const [narrow, wide] = [keyTilesOf(seen, tokens, window), keyTilesOf(seen, tokens)];
  for (let tile = 0; tile < narrow.length; tile += TILE) {
    const [first = 0, end = 0] = narrow.subarray(tile, tile + TILE);
    const keys = Array.from({ length: Math.min(ATTENTION.keys, tokens - first) }, (_, k) => first + k);
    const isNear = (query: number, key: number) => positionOf(query) - positionOf(key) < window;
    const seeing = Array.from({ length: tokens - end }, (_, i) => end + i).filter((query) =>
      keys.some((key) => sees(batch, query, key) && isNear(query, key)),
    );
    expect(seeing).toEqual([]);
  }
  const queries = (tiles: Int32Array) => tiles.reduce((sum, each, i) => sum + (i % TILE === 0 ? -each : each), 0);
  expect(queries(narrow)).toBeLessThan(queries(wide));
});

test("a prefix that all branches see cannot come after one of them", () => {
  const batch = { sequences: new Int32Array(4), branches: Int32Array.of(0, 1, 0, 2) };
  expect(() => seenOf(batch, 4)).toThrow("must precede its branches");
});

test("keys that very many tokens see are distinct from keys that all tokens see", () => {
  const rowOf = (lengths: readonly (readonly number[])[]) => {
    const parts = lengths.flatMap((own, sequence) => own.map((length, branch) => ({ length, branch, sequence })));
    const of = (what: "branch" | "sequence") =>
      Int32Array.from(parts.flatMap((each) => new Array<number>(each.length).fill(each[what])));
    const tokens = of("branch").length;
    return keyTilesOf(seenOf({ sequences: of("sequence"), branches: of("branch") }, tokens), tokens);
  };
  const shared = rowOf(new Array(7).fill([127, ...new Array(8).fill(128)]));
  const apart = rowOf(new Array(32).fill([255]));
  const heads = { heads: 14, keyHeads: 2 };
  expect([isUneven(shared, heads, 132), isUneven(apart, heads, 132)]).toEqual([true, false]);
  expect(isUneven(shared, { heads: 2, keyHeads: 2 }, 132)).toBe(false); // there is nothing to be split
  expect(isUneven(rowOf(new Array(8).fill([1024])), { heads: 32, keyHeads: 8 }, 132)).toBe(false);
});
