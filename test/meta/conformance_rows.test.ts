import { expect, test } from "bun:test";
import { CONFORMANCE_ROWS } from "./conformance_rows.ts";
import { testTitles } from "./test_titles.ts";

test("every test that a row of the specification names exists", () => {
  const titles = testTitles().map(({ title }) => title);
  const named = CONFORMANCE_ROWS.flatMap(({ tests }) => tests ?? []);
  expect(named.filter((start) => !titles.some((title) => title.startsWith(start)))).toEqual([]);
});

test("every row has a test or a reason", () => {
  expect(CONFORMANCE_ROWS.filter(({ tests, reason }) => (tests?.length ?? 0) === 0 && reason === undefined)).toEqual(
    [],
  );
});
