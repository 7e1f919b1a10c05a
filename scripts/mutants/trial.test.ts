import { afterAll, expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { tempDir } from "../../test/harness.ts";
import { failedIn, ordered, Trials, TrialsEnded } from "./trial.ts";

test("tests beside the file come first, then the nearest, then the cheapest, as far as the time reaches", () => {
  const near = new Map([
    ["test/far.test.ts", 5],
    ["test/dear.test.ts", 2],
    ["test/cheap.test.ts", 2],
    ["src/lib/beside.test.ts", 3],
  ]);
  const timings = { "test/dear.test.ts": 9_000, "test/cheap.test.ts": 100, "src/lib/beside.test.ts": 5_000 };
  const all = ["src/lib/beside.test.ts", "test/cheap.test.ts", "test/dear.test.ts", "test/far.test.ts"];
  expect(ordered("src/lib/a.ts", near, timings, 60_000)).toEqual(all);
  expect(ordered("src/lib/a.ts", near, timings, 5_000)).toEqual(all.slice(0, 2));
});

test("a test that is named like the file comes before one that is as near", () => {
  const near = new Map([
    ["test/http/errors.test.ts", 3],
    ["test/connectors/formats.test.ts", 4],
    ["test/far/formats.test.ts", 7],
  ]);
  expect(ordered("src/workers/connector/formats/csv.ts", near, {}, 60_000)).toEqual([
    "test/connectors/formats.test.ts",
    "test/http/errors.test.ts",
    "test/far/formats.test.ts",
  ]);
});

test("the output of a run names the files that failed; without a word it is the last one, or all", () => {
  const files = ["a.test.ts", "b.test.ts"];
  expect(failedIn(files, "\na.test.ts:\n(pass) x\n\nb.test.ts:\n(fail) y\n")).toEqual(["b.test.ts"]);
  expect(failedIn(files, "\na.test.ts:\n# Unhandled error between tests\n\nb.test.ts:\n")).toEqual(["a.test.ts"]);
  expect(failedIn(files, "\na.test.ts:\n(pass) x\n\nb.test.ts:\n")).toEqual(["b.test.ts"]);
  expect(failedIn(files, "panic")).toEqual(files);
});

const tree = tempDir();
const source = "export const isMore = (a: number, b: number) => a > b;\n";
writeFileSync(join(tree, "more.ts"), source);
const testOf = (name: string, ...lines: string[]) =>
  writeFileSync(
    join(tree, `${name}.test.ts`),
    ['import { expect, test } from "bun:test";', 'import { isMore } from "./more.ts";', ...lines, ""].join("\n"),
  );
testOf("edge", 'test("edge", () => expect(isMore(2, 2)).toBe(false));');
testOf("far", 'test("far", () => expect(isMore(3, 2)).toBe(true));');
testOf("broken", 'test("broken", () => expect(isMore(1, 2)).toBe(true));');
const trials = new Trials({ tree, timings: {}, seed: 1 });
afterAll(() => trials.end());
const mutant = { file: "more.ts", at: source.lastIndexOf(">"), line: 1, from: ">", to: ">=" };

test("a mutant is killed by a test that fails with it and passes without it", async () => {
  const verdict = await trials.of(mutant, ["far.test.ts", "broken.test.ts", "edge.test.ts"]);
  expect(verdict).toEqual({ state: "killed", by: "edge.test.ts" });
});

test("tests that pass with a mutant, or fail without it too, let it survive", async () => {
  expect(await trials.of(mutant, ["far.test.ts", "broken.test.ts"])).toEqual({ state: "survived", by: null });
  expect(await trials.of(mutant, [])).toEqual({ state: "uncovered", by: null });
});

test("the file is as before in the end", () => expect(readFileSync(join(tree, "more.ts"), "utf8")).toBe(source));

test("tests that are stopped in the middle give no verdict", async () => {
  testOf("endless", 'test("endless", () => new Promise(() => setInterval(isMore, 1_000)), 100_000);');
  const cut = new Trials({ tree, timings: {}, seed: 1 });
  const verdict = cut.of(mutant, ["endless.test.ts"]);
  cut.end();
  await expect(verdict).rejects.toBeInstanceOf(TrialsEnded);
  await expect(cut.of(mutant, ["edge.test.ts"])).rejects.toBeInstanceOf(TrialsEnded);
  expect(readFileSync(join(tree, "more.ts"), "utf8")).toBe(source);
});
