/** Runs tests against a mutant in a copy of the checkout. */
import { readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { inBatches } from "../test_files.ts";
import { applied, type Mutant } from "./choice.ts";

export type Timings = Readonly<Record<string, number>>;
/** `uncovered`: no quick test reaches the file. */
export type Verdict = { state: "killed"; by: string } | { state: "survived" | "uncovered"; by: null };

const UNKNOWN_MS = 2_000;
const BATCH_MS = 15_000;
const FLOOR_MS = 60_000; // a busy machine is no proof of a mutant
const TIMES_USUAL = 3;
const TEST_TIMEOUT_MS = 120_000;

/** A word that both paths have makes up for so many imports between them. */
const IMPORTS_OF_A_WORD = 2;
const COMMON_WORDS = ["src", "test", "lib", "index", "cli", "worker", "resource"];
const wordsOf = (path: string) =>
  path
    .replace(/(?:\.test)?\.tsx?$/, "")
    .split(/[/_.]/)
    .map((word) => word.replace(/s$/, ""))
    .filter((word) => !COMMON_WORDS.includes(word));

/**
 * Tests beside the file first, then by imports between them and by the words of their names, then the cheap ones. Ends
 * after `reachMs` of usual time.
 */
export function ordered(file: string, near: ReadonlyMap<string, number>, timings: Timings, reachMs: number): string[] {
  const words = new Set(wordsOf(file));
  const shared = (test: string) => new Set(wordsOf(test).filter((word) => words.has(word))).size;
  const key = (test: string) => [
    dirname(test) === dirname(file) ? 0 : 1,
    (near.get(test) ?? Number.MAX_SAFE_INTEGER) - IMPORTS_OF_A_WORD * shared(test),
    timings[test] ?? UNKNOWN_MS,
  ];
  let sum = 0;
  return [...near.keys()]
    .map((test) => ({ test, key: key(test) }))
    .sort((a, b) => a.key.map((value, i) => value - (b.key[i] ?? 0)).find((by) => by !== 0) ?? 0)
    .map(({ test }) => test)
    .filter((test) => {
      const isWithin = sum <= reachMs;
      sum += timings[test] ?? UNKNOWN_MS;
      return isWithin;
    });
}

/** The files of a run that failed. A run that ends without a word failed in its last file, or in all. */
export function failedIn(files: readonly string[], output: string): string[] {
  const failed = new Set<string>();
  let file: string | undefined;
  for (const line of Bun.stripANSI(output).split("\n")) {
    file = /^(\S+\.test\.tsx?):$/.exec(line)?.[1] ?? file;
    if (file !== undefined && /^\(fail\)|^# Unhandled error/.test(line)) failed.add(file);
  }
  const named = failed.size > 0 ? [...failed] : [file];
  const known = named.filter((each) => each !== undefined && files.includes(each));
  return known.length > 0 ? files.filter((each) => known.includes(each)) : [...files];
}

export class TrialsEnded extends Error {}

type Bench = { tree: string; timings: Timings; seed: number };
/** The mutated file of the copy, put in and taken out. */
type Mutation = { putIn: () => void; takeOut: () => void };

/** Tries mutants in one copy. It remembers which test files pass there without a mutant. */
export class Trials {
  readonly #bench: Bench;
  readonly #passes = new Map<string, boolean>();
  #child: Bun.Subprocess | undefined;
  #hasEnded = false;

  constructor(bench: Bench) {
    this.#bench = bench;
  }

  async of(mutant: Mutant, tests: readonly string[]): Promise<Verdict> {
    if (tests.length === 0) return { state: "uncovered", by: null };
    const path = join(this.#bench.tree, mutant.file);
    const text = readFileSync(path, "utf8");
    const mutated = applied(text, mutant);
    const mutation = { putIn: () => writeFileSync(path, mutated), takeOut: () => writeFileSync(path, text) };
    try {
      for (const batch of inBatches(tests, this.#bench.timings, BATCH_MS)) {
        const by = await this.#killerIn(batch, mutation);
        if (by !== undefined) return { state: "killed", by };
      }
    } finally {
      mutation.takeOut();
    }
    return { state: "survived", by: null };
  }

  async #killerIn(batch: readonly string[], mutation: Mutation): Promise<string | undefined> {
    let left = batch.filter((file) => this.#passes.get(file) !== false);
    while (left.length > 0) {
      mutation.putIn();
      const failed = await this.#failedOf(left, "--bail=1");
      if (failed.length === 0) return undefined;
      for (const file of failed) if (await this.#isKiller(file, mutation)) return file;
      left = left.filter((file) => !failed.includes(file));
    }
    return undefined;
  }

  /** The file, which failed, fails again with the mutant and passes without it. */
  async #isKiller(file: string, { putIn, takeOut }: Mutation): Promise<boolean> {
    putIn();
    if ((await this.#failedOf([file])).length === 0) return false;
    takeOut();
    const passes = this.#passes.get(file) ?? (await this.#failedOf([file])).length === 0;
    this.#passes.set(file, passes);
    return passes;
  }

  async #failedOf(files: readonly string[], ...flags: string[]): Promise<string[]> {
    if (this.#hasEnded) throw new TrialsEnded();
    const { tree, timings, seed } = this.#bench;
    const usual = files.reduce((sum, file) => sum + (timings[file] ?? UNKNOWN_MS), 0);
    const argv = [
      process.execPath,
      "test",
      `--timeout=${TEST_TIMEOUT_MS}`,
      ...flags,
      ...files.map((file) => `./${file}`),
    ];
    const { VERK_BINARY: _, ...env } = process.env;
    const child = Bun.spawn(argv, {
      cwd: tree,
      stdio: ["ignore", "ignore", "pipe"],
      detached: true, // a group of its own, so that what the tests have started ends with them
      env: { ...env, VERK_TEST_SEED: `${seed}`, VERK_TEST_FULL: "0" },
    });
    this.#child = child;
    const late = setTimeout(() => this.#stop(), usual * TIMES_USUAL + FLOOR_MS);
    const reading = new Response(child.stderr).text();
    const code = await child.exited;
    clearTimeout(late);
    this.#stop();
    if (this.#hasEnded) throw new TrialsEnded(); // the tests were stopped, which says nothing about the mutant
    return code === 0 ? [] : failedIn(files, await reading);
  }

  /** Stops the tests that run now. The verdict that they were to give is never reached: `of` throws. */
  end() {
    this.#hasEnded = true;
    this.#stop();
  }

  /** With all that the tests have started. */
  #stop() {
    const child = this.#child;
    this.#child = undefined;
    if (!child) return;
    try {
      process.kill(-child.pid, "SIGKILL");
    } catch {
      // the group has ended
    }
  }
}
