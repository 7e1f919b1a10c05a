// tier: all (many jails)
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import type { Language } from "../../src/lib/rewards/contract.ts";
import { openResolver } from "../../src/sandbox/reward/resolver.ts";
import { type TestApp, testApp } from "../harness.ts";

let app: TestApp;
beforeAll(() => {
  app = testApp();
});
afterAll(() => app.close().then(app.remove));

async function mapped(language: Language, source: string, rows: Record<string, unknown>[]) {
  const code = { language, source, seed: 7 };
  const signal = new AbortController().signal;
  const resolver = await openResolver(app.ctx.rewards, code, { rowMs: 2_000, signal });
  return resolver.map(rows, 1).finally(resolver.close);
}
const failure = (language: Language, source: string, rows: Record<string, unknown>[] = [{ prompt: "a" }]) =>
  mapped(language, source, rows).then(
    () => "it worked",
    (error: Error) => error.message,
  );

describe.each([
  [
    "python",
    `def resolve(row, **kwargs):
    if row["n"] == 0:
        return None
    if row["n"] == 1:
        row["prompt"] = row["prompt"].strip()
        return row
    return [{**row, "copy": i, "same": kwargs["n"]} for i in range(row["n"])]
`,
  ],
  [
    "typescript",
    `type Row = { prompt: string; n: number };
export function resolve(row: Row) {
  if (row.n === 0) return null;
  if (row.n === 1) return { ...row, prompt: row.prompt.trim() };
  return Array.from({ length: row.n }, (_, copy) => ({ ...row, copy, same: row.n }));
}
`,
  ],
] as const)("a resolver in %s", (language, source) => {
  test("leaves out, rewrites and expands rows", async () => {
    const rows = [0, 1, 2].map((n) => ({ prompt: " é😀 ", n }));
    expect(await mapped(language, source, rows)).toEqual([
      [],
      [{ prompt: "é😀", n: 1 }],
      [
        { prompt: " é😀 ", n: 2, copy: 0, same: 2 },
        { prompt: " é😀 ", n: 2, copy: 1, same: 2 },
      ],
    ]);
  });
});

test("a long batch is answered in parts, each row once and in order", async () => {
  const source = `count = 0
def resolve(row, **kwargs):
    global count
    count += 1
    return {"n": row["n"], "count": count, "text": "x" * row["size"]}
`;
  const rows = Array.from({ length: 200 }, (_, n) => ({ n, size: n % 50 === 7 ? 200_000 : 10 }));
  const made = await mapped("python", source, rows);
  expect(made.map(([row]) => [row?.["n"], row?.["count"]])).toEqual(rows.map(({ n }) => [n, n + 1]));
  expect(made.map(([row]) => String(row?.["text"]).length)).toEqual(rows.map(({ size }) => size));
});

test.each([
  ["hangs", "while True: pass", "row 90: the code took longer than 2000 ms for one row"],
  ["returns too much", "return {'x': 'y' * 2_000_000}", "row 90: the code"],
  ["raises", "raise ValueError('no')", "row 90: line 3: ValueError: no"],
])("the row is named if code %s in the middle of a batch", async (_what, line, message) => {
  const source = `def resolve(row, **kwargs):
    if row["n"] == 90:
        ${line}
    return row
`;
  const rows = Array.from({ length: 128 }, (_, i) => ({ n: i + 1 }));
  expect(await failure("python", source, rows)).toContain(message);
});

test("draws the same numbers for the same seed", async () => {
  const source = "import random\ndef resolve(row): return {**row, 'r': random.random()}\n";
  const rows = [{ prompt: "a" }, { prompt: "b" }];
  expect(await mapped("python", source, rows)).toEqual(await mapped("python", source, rows));
});

test.each([
  ["python", "def resolve(row)\n    return row\n", "the code cannot be run: line 1:"],
  ["python", "def other(row): return row\n", "There is no function named `resolve`"],
  ["python", "def resolve(x): return x\n", "does not take `row`"],
  ["python", "def resolve(row):\n    return row['missing']\n", "row 1: line 2: KeyError: 'missing'"],
  ["python", "def resolve(row): return 7\n", "row 1: TypeError: the function returned an int: 7 and not a row"],
  ["python", "def resolve(row): return [1]\n", "not only rows"],
  ["python", "def resolve(row): return {'a': {1}}\n", "row 1: TypeError"],
  ["javascript", "export const a = 1;\n", "No function named `resolve` is exported"],
  ["javascript", "export function resolve(row) {\n  return row.x.y;\n}\n", "row 1: line 2: TypeError"],
  ["javascript", "export const resolve = () => 7;\n", "row 1: TypeError: the function returned a number: 7"],
  [
    "javascript",
    "export const resolve = () => { for (;;); };\n",
    "row 1: the code took longer than 2000 ms for one row",
  ],
] as const)("%s %j fails with a message", async (language, source, message) => {
  expect(await failure(language, source)).toContain(message);
});
