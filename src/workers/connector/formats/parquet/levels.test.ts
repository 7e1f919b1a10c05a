import { expect, test } from "bun:test";
import { openRandom } from "../../../../lib/random.ts";
import { readHybrid, widthOf } from "./levels.ts";

/** A head of a run or of groups of eight packed values. */
function headBytes(head: number): number[] {
  const bytes: number[] = [];
  for (let left = head; ; left = Math.floor(left / 128)) {
    bytes.push((left % 128) + (left >= 128 ? 128 : 0));
    if (left < 128) return bytes;
  }
}
const run = (count: number, value: number, width: number) => [
  ...headBytes(2 * count),
  ...Array.from({ length: Math.ceil(width / 8) }, (_, i) => Math.floor(value / 256 ** i) % 256),
];
function packed(values: readonly number[], width: number): number[] {
  const groups = Math.ceil(values.length / 8);
  const bytes = new Array<number>(groups * width).fill(0);
  for (const [i, value] of values.entries())
    for (let bit = 0; bit < width; bit++)
      if (Math.floor(value / 2 ** bit) % 2 === 1) bytes[(i * width + bit) >> 3]! |= 1 << ((i * width + bit) & 7);
  return [...headBytes(2 * groups + 1), ...bytes];
}
const read = (bytes: readonly number[], width: number, count: number) => [
  ...readHybrid(Uint8Array.from(bytes), width, count),
];

test("runs and packed groups follow each other", () => {
  const values = [1, 2, 3, 0, 1, 2, 3, 3];
  expect(read([...packed(values, 2), ...run(3, 2, 2), ...packed(values, 2), ...run(200, 1, 2)], 2, 219)).toEqual([
    ...[...values, 2, 2, 2, ...values],
    ...Array(200).fill(1),
  ]);
});

test("values of every width, packed and as a run", () => {
  const random = openRandom(7);
  for (let width = 1; width <= 32; width++) {
    const values = Array.from({ length: 19 }, (_, i) => (i === 0 ? 2 ** width - 1 : Math.floor(random() * 2 ** width)));
    expect(read(packed(values, width), width, 19)).toEqual(values);
    expect(read(run(300, values[0]!, width), width, 300)).toEqual(Array(300).fill(values[0]));
  }
});

test("never more values than asked for; without a width all are 0", () => {
  expect(read(run(1_000_000, 3, 2), 2, 2)).toEqual([3, 3]);
  expect(read(packed([1, 2, 3, 1, 2, 3, 1, 2], 2), 2, 3)).toEqual([1, 2, 3]);
  expect([read([], 0, 3), read([], 5, 0)]).toEqual([[0, 0, 0], []]);
});

test.each<[string, number[], number, string]>([
  ["more bits than a number has", [2, 1], 33, "claims values of 33 bits"],
  ["no bytes", [], 1, "ends too early"],
  ["a run without its value", [2], 1, "ends too early"],
  ["a group without its bytes", [3, 1], 2, "ends too early"],
  ["a head without an end", [255, 255, 255, 255, 255, 255, 255], 1, "an endless run"],
])("%s is refused", (_, bytes, width, message) => {
  expect(() => read(bytes, width, 8)).toThrow(message);
});

test("the bits that hold a number", () => {
  expect([0, 1, 2, 3, 4, 255, 256].map(widthOf)).toEqual([0, 1, 2, 2, 3, 8, 9]);
});
