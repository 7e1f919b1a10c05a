import { expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { affected, type Graph, inBatches, inOrder, readGraph, testFiles, tierOf } from "./test_files.ts";

const root = dirname(import.meta.dir);
const files = testFiles(root);
const tiers = new Map(files.map((file) => [file, tierOf(file, readFileSync(join(root, file), "utf8"))]));
const quick = files.filter((file) => tiers.get(file) === "quick");

test("every file belongs to a tier, and a file of the second one says why", () => {
  expect(tiers.size).toBe(files.length);
  expect(() => tierOf("a.test.ts", "// tier: night (long)\n")).toThrow('must be "// tier: all (why it is not quick)"');
  expect(() => tierOf("a.test.ts", "// tier: all\n")).toThrow("must be");
  expect(tierOf("a.test.ts", "/** About. */\n// tier: all (needs Slurm, 40 s)\n")).toBe("all");
  expect(tierOf("a.test.ts", 'import "x";\n')).toBe("quick");
});

test("the quick tier has tests of every resource, of the walls, of the executable and of a page", () => {
  const resourcesOf = (some: readonly string[]) =>
    new Set(some.flatMap((file) => /^src\/resources\/((?:detection|other_apis|\w+\/\w+))\//.exec(file)?.[1] ?? []));
  const [resources, covered] = [resourcesOf(files), resourcesOf(quick)];
  expect([...resources].filter((name) => !covered.has(name))).toEqual([]);
  for (const room of [
    "attacks",
    "browser",
    "connectors",
    "contract",
    "fault",
    "http",
    "process",
    "sandbox",
    "serving",
    "storage",
  ])
    expect([room, quick.some((file) => file.startsWith(`test/${room}/`))]).toEqual([room, true]);
});

const graph = (edges: Record<string, string[]>): Graph =>
  new Map(Object.entries(edges).map(([file, imports]) => [file, new Set(imports)]));

test("a change can break the tests that import it, the nearest first", () => {
  const small = graph({
    "src/a.ts": [],
    "src/b.ts": ["src/a.ts"],
    "src/c.ts": [],
    "src/a.test.ts": ["src/a.ts"],
    "src/b.test.ts": ["src/b.ts"],
    "src/c.test.ts": ["src/c.ts"],
  });
  expect([...affected(small, ["src/a.ts"])]).toEqual([
    ["src/a.test.ts", 1],
    ["src/b.test.ts", 2],
  ]);
  expect([...affected(small, ["src/c.test.ts"]).keys()]).toEqual(["src/c.test.ts"]);
  expect(affected(small, ["src/unknown.ts"]).size).toBe(0);
});

test("C beside code stands for it, and documents for the tests of documents", () => {
  const small = graph({
    "src/native/jail/jail.ts": [],
    "test/jail.test.ts": ["src/native/jail/jail.ts"],
    "test/meta/docs.test.ts": [],
    "test/other.test.ts": [],
  });
  expect([...affected(small, ["src/native/jail/main.c"]).keys()]).toEqual(["test/jail.test.ts"]);
  expect([...affected(small, ["docs/serving.md"]).keys()]).toEqual(["test/meta/docs.test.ts"]);
});

test("the graph of this repository: a unit, the program behind a test of the executable, and types", () => {
  const real = readGraph(root);
  expect(affected(real, ["src/lib/turns.ts"]).has("test/process/serve.test.ts")).toBe(true);
  expect(affected(real, ["scripts/test_options.ts"]).get("scripts/test_options.test.ts")).toBe(1);
  expect(affected(real, ["src/http/limits/gcra.ts"]).get("src/http/limits/gcra.test.ts")).toBe(1);
  expect(affected(real, ["src/sandbox/jail/types.ts"]).has("test/sandbox/jail_life.test.ts")).toBe(true);
});

test("first what a change can break, then what ran longest ago, then all others in an order of this turn", () => {
  const near = new Map([
    ["near", 2],
    ["nearer", 1],
  ]);
  const lastRuns = { new: 200, old: 100 };
  expect(inOrder(["new", "old", "near", "nearer"], { near, lastRuns, turn: "a" })).toEqual([
    "nearer",
    "near",
    "old",
    "new",
  ]);
  const many = Array.from({ length: 20 }, (_, i) => `file${i}`);
  const order = (turn: string) => inOrder(many, { near: new Map(), lastRuns: {}, turn });
  expect(order("a")).toEqual(order("a"));
  expect(order("a")).not.toEqual(order("b"));
});

test("batches are about as long as asked for, and lose no file", () => {
  const timings = { a: 50, b: 60, c: 10, d: 200 };
  expect(inBatches(["a", "b", "c", "d"], timings, 100)).toEqual([
    ["a", "b"],
    ["c", "d"],
  ]);
  expect(inBatches([], timings, 100)).toEqual([]);
});
