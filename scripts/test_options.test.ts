import { expect, test } from "bun:test";
import { parallelFlags, readOptions } from "./test_options.ts";

const machine = { cores: 2, seed: undefined, draw: () => 77 };

test("without flags: the quick files in one process more than cores, quick sweeps, a drawn seed", () => {
  expect(readOptions([], machine)).toEqual({
    filters: [],
    choice: "quick",
    since: "HEAD",
    budgetMs: undefined,
    list: false,
    full: false,
    jobs: 3,
    updateTimings: false,
    seed: 77,
  });
  expect(readOptions([], { ...machine, cores: 64 }).jobs).toBe(8);
});

test("flags and filters may stand in any order", () => {
  const options = readOptions(["src/lib", "--full", "--jobs=1", "fault", "--update-timings"], machine);
  expect(options).toEqual({
    filters: ["src/lib", "fault"],
    choice: "all",
    since: "HEAD",
    budgetMs: undefined,
    list: false,
    full: true,
    jobs: 1,
    updateTimings: true,
    seed: 77,
  });
  expect(parallelFlags(options)).toContain("--update-timings");
});

test("--list asks only for the names of the files", () => {
  expect(readOptions(["--list", "cli"], machine)).toMatchObject({ list: true, filters: ["cli"] });
});

test("a run takes a tier, or what a change can break, for as long as its budget lasts", () => {
  expect(readOptions(["--rest", "--budget=40m"], machine)).toMatchObject({ choice: "rest", budgetMs: 2_400_000 });
  const apart = readOptions(["--budget", "40m", "--rest", "src/lib"], machine);
  expect(apart).toMatchObject({ choice: "rest", budgetMs: 2_400_000, filters: ["src/lib"] });
  expect(readOptions(["--all", "--budget=90s"], machine)).toMatchObject({ choice: "all", budgetMs: 90_000 });
  expect(readOptions(["--changed"], machine)).toMatchObject({ choice: "changed", since: "HEAD" });
  expect(readOptions(["--changed=main~3"], machine)).toMatchObject({ choice: "changed", since: "main~3" });
});

test("a seed that is given is taken", () => {
  expect(readOptions([], { ...machine, seed: "12" }).seed).toBe(12);
});

test.each([
  [["--fast"], undefined, "Unknown flag --fast"],
  [["--jobs=0"], undefined, "--jobs must be a whole number from 1"],
  [["--jobs="], undefined, "--jobs must be"],
  [["--budget"], undefined, '--budget must be a time such as 90s, 40m or 1h, not ""'],
  [["--budget=40"], undefined, '--budget must be a time such as 90s, 40m or 1h, not "40"'],
  [[], "x", "VERK_TEST_SEED must be a whole number from 0"],
])("%p with the seed %p is refused", (argv, seed, message) => {
  expect(() => readOptions(argv, { ...machine, seed })).toThrow(message);
});
