import { expect, test } from "bun:test";
import { createStatistics, lengthOf } from "./statistics.ts";

test("columns have types, lengths, frequent values, and equal rows are counted", () => {
  const statistics = createStatistics();
  const rows = [
    { prompt: "ab", level: 1, ok: true },
    { prompt: "ab", level: 1, ok: true },
    { prompt: [{ role: "user", content: "abcd" }], level: 3 },
    { prompt: "x", level: null },
  ];
  for (const row of rows) statistics.add(row, Bun.hash(JSON.stringify(row)));
  const { columns, ...all } = statistics.result();
  expect(all).toEqual({ rows: 4, duplicates: 1, columns_left_out: 0 });
  const [prompt, level, ok] = columns;
  expect(prompt).toMatchObject({
    name: "prompt",
    present: 4,
    types: [
      { type: "text", count: 3 },
      { type: "list", count: 1 },
    ],
    length: { min: 1, mean: 2.25, max: 4 },
    number: null,
    distinct: null,
    frequent: [{ value: "ab", count: 2 }],
  });
  expect(prompt?.length?.histogram.map(({ from, count }) => [from, count])).toEqual([
    [1, 1],
    [2, 2],
    [3, 0],
    [4, 1],
  ]);
  expect(level).toMatchObject({ length: null, number: { min: 1, mean: 5 / 3, max: 3 }, distinct: 2 });
  expect(ok).toMatchObject({ present: 2, distinct: 1, frequent: [{ value: "true", count: 2 }] });
});

test("a histogram counts every number, also those far outside the first ones", () => {
  const statistics = createStatistics();
  const numbers = Array.from({ length: 20_000 }, (_, i) => (i < 5_000 ? i % 10 : i % 2 === 0 ? -i : i * 3));
  for (const [i, n] of numbers.entries()) statistics.add({ n }, i);
  const { number, distinct } = statistics.result().columns[0] ?? {};
  expect(distinct).toBeNull();
  expect(number?.histogram.reduce((sum, { count }) => sum + count, 0)).toBe(20_000);
  for (const { from, to, count } of number?.histogram ?? [])
    expect(numbers.filter((n) => n >= from && n < to).length).toBe(count);
  expect([number?.min, number?.max]).toEqual([-19_998, 59_997]);
});

test("columns beyond the most are named by their number alone", () => {
  const statistics = createStatistics();
  statistics.add(Object.fromEntries(Array.from({ length: 70 }, (_, i) => [`c${i}`, i])), 1);
  const { columns, columns_left_out } = statistics.result();
  expect([columns.length, columns_left_out]).toEqual([64, 6]);
  expect(lengthOf([{ role: "user", content: [{ type: "text", text: "abc" }] }])).toBe(3);
});
