import { describe, expect, test } from "bun:test";
import { openRandom } from "../../../lib/random.ts";
import { SEEN, seenOf } from "../engine/fused/sight.ts";
import { batchOf, type MicroBatch, microBatches, noiseOf, roundUp, weightsOf } from "./batches.ts";
import type { Piece } from "./types.ts";

const random = openRandom(5);
const piece = (): Piece => {
  const length = 2 + Math.floor(random() ** 2 * 120);
  return { tokens: Int32Array.from({ length }, (_, i) => i + 1), from: 1 + Math.floor(random() * (length - 1)) };
};
const units = Array.from({ length: 60 }, () => Array.from({ length: 1 + Math.floor(random() * 3) }, piece));
const SIZES = { tokens: 512, steps: 8, shares: false, attention: "squared" as const };

const usedBy = ({ pieces }: MicroBatch) =>
  pieces.flatMap(({ piece: { tokens }, start }) => Array.from({ length: tokens.length - 1 }, (_, i) => start + i));

describe.each(["squared", "seen"] as const)("micro-batches, attention %s", (attention) => {
  const sizes = { ...SIZES, attention };
  const batches = microBatches(units, sizes);

  test("hold every piece once, no two at the same position, none across two rows", () => {
    const names = batches.flatMap(({ pieces }) => pieces.map(({ unit, index }) => `${unit}.${index}`));
    expect(names.sort()).toEqual(units.flatMap((pieces, u) => pieces.map((_, i) => `${u}.${i}`)).sort());
    for (const micro of batches) {
      const used = usedBy(micro);
      expect(new Set(used).size).toBe(used.length);
      expect(Math.max(...used)).toBeLessThan(micro.tokens * micro.rows);
      for (const { piece: one, start } of micro.pieces)
        expect(Math.floor(start / micro.tokens)).toBe(Math.floor((start + one.tokens.length - 2) / micro.tokens));
    }
  });

  test("keep a unit together, in its order", () => {
    for (const [unit, pieces] of units.entries()) {
      const holding = batches.filter((micro) => micro.pieces.some((each) => each.unit === unit));
      expect(holding).toHaveLength(1);
      const own = holding[0]?.pieces.filter((each) => each.unit === unit) ?? [];
      expect(own.map(({ piece: one }) => one)).toEqual(pieces);
    }
  });

  test("stay within their size, unless one unit alone is larger", () => {
    for (const { tokens, rows, pieces } of batches) {
      const isOne = new Set(pieces.map(({ unit }) => unit)).size === 1;
      if (!isOne) expect(tokens * rows).toBeLessThanOrEqual(SIZES.tokens);
    }
    const long: Piece = { tokens: new Int32Array(5000), from: 1 };
    expect(microBatches([[long], [long]], sizes)).toHaveLength(2);
  });

  test("have little padding", () => {
    const positions = batches.reduce((sum, { tokens, rows }) => sum + tokens * rows, 0);
    expect(batches.flatMap(usedBy).length / positions).toBeGreaterThan(attention === "seen" ? 0.95 : 0.8);
  });

  test.each([
    ["no pieces", [], "has no pieces"],
    ["one token", [{ tokens: Int32Array.of(1), from: 1 }], "1 tokens cannot be scored"],
    ["nothing before the first scored", [{ tokens: Int32Array.of(1, 2), from: 0 }], "from 0"],
  ])("refuse a unit with %s", (_name, pieces, words) => {
    expect(() => microBatches([pieces], sizes)).toThrow(words);
  });
});

test("a batch has the next token as the target of each position from the first scored one", () => {
  const [micro] = microBatches([[{ tokens: Int32Array.of(7, 8, 9, 10), from: 2 }]], SIZES) as [MicroBatch];
  const { ids, targets, positions, sequences } = batchOf(micro, null);
  expect([...ids.subarray(0, 4)]).toEqual([7, 8, 9, 0]);
  expect([...targets.subarray(0, 4)]).toEqual([-1, 9, 10, -1]);
  expect([...positions.subarray(0, 4)]).toEqual([0, 1, 2, 0]);
  expect([...sequences.subarray(0, 4)]).toEqual([0, 0, 0, -1]);
});

describe("pieces that begin alike", () => {
  const prompt = [...Array(20).keys()];
  const group = Array.from({ length: 8 }, (_, i) => [
    { tokens: Int32Array.from([...prompt, 100 + i, 200 + i, 300 + i]), from: prompt.length },
  ]);
  const sharing = { ...SIZES, shares: true };

  test("share one copy of their beginning, and each has its own rest from the first scored token on", () => {
    const [micro] = microBatches(group, sharing) as [MicroBatch];
    const { ids, sequences, branches, positions, targets } = batchOf(micro, null);
    expect(sequences.filter((each) => each >= 0)).toHaveLength(19 + 8 * 3);
    expect(branches?.filter((each) => each > 0)).toHaveLength(8 * 3);
    for (const { piece: one, head, start, unit } of micro.pieces) {
      expect([...ids.subarray(head, head + 19)]).toEqual(prompt.slice(0, 19));
      expect([...ids.subarray(start + 19, start + 22)]).toEqual([...one.tokens.subarray(19, 22)]);
      expect([...positions.subarray(start + 19, start + 22)]).toEqual([19, 20, 21]);
      expect([...targets.subarray(start + 19, start + 22)]).toEqual([100 + unit, 200 + unit, 300 + unit]);
    }
    expect(targets.filter((each) => each >= 0)).toHaveLength(8 * 3);
  });

  test("are not put into a row that would be much longer than the longest of them", () => {
    const long = group.map(([one]) => [{ tokens: Int32Array.from([...one!.tokens, ...Array(200).keys()]), from: 20 }]);
    for (const { tokens } of microBatches(long, sharing)) expect(tokens).toBeLessThan(1.6 * 223);
    expect(microBatches(long, sharing)).toEqual(microBatches(long, { ...sharing, shares: false }));
  });

  test("are in one row of any length if attention follows sight, so a prompt appears once for each group", () => {
    const prompts = Array.from({ length: 32 }, (_, p) => Array.from({ length: 128 }, (_, i) => 1000 * p + i));
    const all = prompts.flatMap((prompt) =>
      Array.from({ length: 8 }, (_, i) => [{ tokens: Int32Array.from([...prompt, ...Array(128).fill(i)]), from: 128 }]),
    );
    const batches = microBatches(all, { tokens: 8192, steps: 4, shares: true, attention: "seen" });
    const positions = batches.reduce((sum, { tokens, rows }) => sum + tokens * rows, 0);
    expect([batches.length, positions, new Set(batches.map(({ rows }) => rows)).size]).toEqual([5, 37_888, 1]); // of 36,832
    for (const micro of batches) {
      const { branches, sequences, ids } = batchOf(micro, null);
      const groups = micro.pieces.length / 8;
      expect(sequences.filter((each) => each >= 0)).toHaveLength(groups * (127 + 8 * 128));
      expect(branches?.filter((each) => each > 0)).toHaveLength(groups * 8 * 128);
      for (const { piece: one, head } of micro.pieces)
        expect(ids.subarray(head, head + 127)).toEqual(one.tokens.subarray(0, 127));
    }
  });
});

test("aligned beginnings and answers lie at multiples of the alignment, and no answer sees a gap", () => {
  const piece = (head: number, length: number, seed: number) => [
    { tokens: Int32Array.from({ length: head + 1 + length }, (_, i) => (i < head ? seed : 500) + i), from: head + 1 },
  ];
  const units = [
    ...[3, 64, 70].map((length) => piece(9, length, 0)),
    piece(75, 5, 1000),
    piece(0, 2, 0),
    piece(64, 1, 7),
  ];
  const sizes = { tokens: 4096, steps: 4, shares: true, attention: "seen" as const, align: 64 };
  const [micro] = microBatches(units, sizes) as [MicroBatch];
  expect([micro.tokens % 64, micro.scored % 64, micro.pieces.length]).toEqual([0, 0, units.length]);
  const batch = batchOf(micro, null);
  const seen = seenOf(batch, micro.tokens);
  for (const { piece: one, head, start } of micro.pieces) {
    const [first, answer] = [head, start + one.from - 1];
    expect([first % 64, answer % 64]).toEqual([0, 0]);
    for (let at = answer; at < start + one.tokens.length - 1; at++)
      expect([...seen.subarray(at * SEEN, at * SEEN + 3)]).toEqual([first, first + one.from - 1, answer]);
  }
});

/** 12 steps of 32 prompts with 50 to 149 tokens and 8 answers each. docs/training.md has these figures. */
test.each([
  [128, 1.5],
  [256, 1.3],
  [512, 1.1],
])("answers of 1 to %d tokens, aligned to 64, take %d times the tokens", (most, times) => {
  const numbers = (length: number, next: () => number) => Array.from({ length }, () => Math.floor(next() * 1000));
  const steps = Array.from({ length: 12 }, (_, seed) => {
    const next = openRandom(seed);
    return Array.from({ length: 32 }, () => {
      const prompt = numbers(50 + Math.floor(next() * 100), next);
      return Array.from({ length: 8 }, () => {
        const answer = numbers(1 + Math.floor(next() * most), next);
        return [{ tokens: Int32Array.from([...prompt, ...answer]), from: prompt.length }];
      });
    }).flat();
  });
  const tokensOf = (align: number) =>
    steps
      .flatMap((each) => microBatches(each, { tokens: 16_384, steps: 4, shares: true, attention: "seen", align }))
      .reduce((sum, { tokens, rows }) => sum + tokens * rows, 0);
  expect(tokensOf(64) / tokensOf(1)).toBeCloseTo(times, 1);
});

test("dropout depends on the unit, not on its position", () => {
  const [first, second] = [units[0], units[1]] as [Piece[], Piece[]];
  const seedsOf = (all: Piece[][], unit: number) => {
    for (const micro of microBatches(all, { tokens: 128, steps: 8, shares: false, attention: "squared" as const })) {
      const found = micro.pieces.find((each) => each.unit === unit);
      if (found) return batchOf(micro, 9).dropSeeds?.slice(found.start, found.start + found.piece.tokens.length - 1);
    }
    throw new Error("no such unit");
  };
  expect(seedsOf([first, second], 0)).toEqual(seedsOf([first, ...units.slice(2), second], 0));
});

test("weights of the wrong length are an error that says so", () => {
  const [micro] = microBatches([[{ tokens: Int32Array.of(1, 2, 3), from: 1 }]], SIZES) as [MicroBatch];
  const scores = [{ logps: new Float32Array(2), entropies: null }];
  expect(() => weightsOf(micro, () => [new Float32Array(3)], scores)).toThrow("3 weights for 2 scored tokens");
});

test.each([
  [1, 1],
  [9, 9],
  [17, 18],
  [33, 36],
  [1000, 1024],
  [1025, 1152],
])("%d is rounded up to %d", (count, expected) => expect(roundUp(count, 8)).toBe(expected));

test("NEFTune's noise is uniform within alpha / √(tokens · width), and the same in every layout", () => {
  const [alpha, width, seed] = [5, 16, 9];
  /** The noise of each piece, by its name. */
  const drawn = (sizes: typeof SIZES) => {
    const found = new Map<string, Float32Array>();
    for (const micro of microBatches(units, sizes)) {
      const noise = noiseOf(micro, { alpha, width, seed });
      const used = new Set(usedBy(micro));
      for (let at = 0; at < micro.tokens * micro.rows; at++)
        if (!used.has(at)) expect(noise.subarray(at * width, (at + 1) * width).every((x) => x === 0)).toBe(true);
      for (const { piece: one, unit, index, start } of micro.pieces)
        found.set(`${unit}.${index}`, noise.slice(start * width, (start + one.tokens.length - 1) * width));
    }
    return found;
  };
  const noise = drawn(SIZES);
  expect(drawn({ ...SIZES, tokens: 64 })).toEqual(noise);
  let [squares, count] = [0, 0];
  for (const [unit, pieces] of units.entries())
    for (const [index, { tokens }] of pieces.entries()) {
      const bound = alpha / Math.sqrt(tokens.length * width);
      for (const value of noise.get(`${unit}.${index}`)!) {
        expect(Math.abs(value)).toBeLessThanOrEqual(bound);
        squares += (value / bound) ** 2;
        count++;
      }
    }
  expect(squares / count).toBeCloseTo(1 / 3, 1); // of a uniform draw
  expect(new Set(noise.get("0.0")).size).toBeGreaterThan(10);
});
