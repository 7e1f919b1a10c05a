import { expect, test } from "bun:test";
import { CONFORMANCE_ROWS } from "./conformance_rows.ts";
import { testTitles } from "./test_titles.ts";

test("every test that a row of the specification names exists", () => {
  const titles = testTitles().map(({ title }) => title);
  const named = CONFORMANCE_ROWS.flatMap(({ tests }) => tests ?? []);
  expect(named.filter((start) => !titles.some((title) => title.startsWith(start)))).toEqual([]);
});

/** Rows of the review of 9bb22e5b whose test has the number in its title: `conformance 3: …`. */
const NUMBERED = [3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22];

test("every numbered row of the second review has a test with its number", () => {
  const titles = testTitles().map(({ title }) => title);
  const has = (row: number) => titles.some((title) => new RegExp(`\\bconformance ${row}\\b`).test(title));
  expect(NUMBERED.filter((row) => !has(row))).toEqual([]);
});

test("every row has a test or a reason", () => {
  expect(CONFORMANCE_ROWS.filter(({ tests, reason }) => (tests?.length ?? 0) === 0 && reason === undefined)).toEqual(
    [],
  );
});
