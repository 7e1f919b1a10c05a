import { expect, test } from "bun:test";
import { openRandom } from "../../../lib/random.ts";
import { pack } from "./pack.ts";

test("first fit, longest first: 6 4 3 3 2 into rows of 10", () => {
  // 6 → row 0; 4 → row 0 (full); 3 and 3 → row 1; 2 → row 1
  expect(pack([3, 6, 3, 2, 4], 10)).toEqual([
    {
      used: 10,
      spans: [
        { sequence: 1, start: 0, length: 6 },
        { sequence: 4, start: 6, length: 4 },
      ],
    },
    {
      used: 8,
      spans: [
        { sequence: 0, start: 0, length: 3 },
        { sequence: 2, start: 3, length: 3 },
        { sequence: 3, start: 6, length: 2 },
      ],
    },
  ]);
});

test("a sequence that fills a row is accepted, a longer one is refused by number", () => {
  expect(pack([10], 10)).toHaveLength(1);
  expect(() => pack([1, 11], 10)).toThrow("sequence 1 has 11 tokens");
});

test("no sequences need no row, and an empty sequence has no position", () => {
  expect(pack([], 10)).toEqual([]);
  expect(pack([0, 2], 10)).toEqual([{ used: 2, spans: [{ sequence: 1, start: 0, length: 2 }] }]);
});

test("every sequence appears once and whole without overlap, as plain first fit would place it", () => {
  const random = openRandom(21);
  for (let round = 0; round < 100; round++) {
    const capacity = 20 + Math.floor(random() * 80);
    const lengths = Array.from({ length: Math.floor(random() * 60) }, () => 1 + Math.floor(random() * capacity));
    const rows = pack(lengths, capacity);
    const packed = rows.flatMap(({ spans }) => spans).map(({ sequence }) => sequence);
    expect(packed.sort((a, b) => a - b)).toEqual(lengths.map((_, i) => i));
    for (const { used, spans } of rows) {
      expect(used).toBeLessThanOrEqual(capacity);
      let end = 0;
      for (const { sequence, start, length } of spans) {
        expect([start, length]).toEqual([end, lengths[sequence]!]);
        end += length;
      }
      expect(end).toBe(used);
    }
    const plain: number[] = [];
    for (const length of [...lengths].sort((a, b) => b - a)) {
      const row = plain.findIndex((used) => used + length <= capacity);
      if (row < 0) plain.push(length);
      else plain[row]! += length;
    }
    expect(rows.map(({ used }) => used)).toEqual(plain);
  }
});
