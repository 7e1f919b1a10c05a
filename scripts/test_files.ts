/**
 * Chooses the test files of a run and their order: by tier, by what a change can break, and by the time of their last run.
 * A line `// tier: all (reason)` in the head of a file puts it into the second tier. Without it, a file is quick.
 */
import { existsSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";

export type Tier = "quick" | "all";
/** File → the files that it imports. */
export type Graph = ReadonlyMap<string, ReadonlySet<string>>;

const TAG = /^\/\/ tier: (\S+)(?: \((.+)\))?$/;
const HEAD_LINES = 3;
const isTest = (file: string) => /\.test\.tsx?$/.test(file);
const isCode = (file: string) => /\.tsx?$/.test(file);

/** Throws for a tag that is not understood. */
export function tierOf(file: string, text: string): Tier {
  const lines = text.split("\n", HEAD_LINES).filter((line) => line.startsWith("// tier"));
  if (lines.length === 0) return "quick";
  const [, name, reason] = TAG.exec(lines[0] as string) ?? [];
  if (name !== "all" || reason === undefined)
    throw new Error(`${file}: "${lines[0]}" must be "// tier: all (why it is not quick)"`);
  return "all";
}

export const testFiles = (root: string): string[] =>
  [...new Bun.Glob("{src,test,scripts,bench,models}/**/*.test.{ts,tsx}").scanSync(root)].sort();

/** Starting the executable, or a worker from source, needs the whole program. */
const RUNS_PROGRAM = ["test/binary.ts", "test/cli.ts", "test/node_executable.ts", "src/platform/workers/self.ts"];
const PROGRAM = "src/main.ts";

/** `types`: a file that takes only types from another one imports it as well. */
export function readGraph(root: string, { types = true } = {}): Graph {
  const files = [...new Bun.Glob("{src,test,scripts,bench,models}/**/*.{ts,tsx}").scanSync(root)];
  const transpilers = { ts: new Bun.Transpiler({ loader: "ts" }), tsx: new Bun.Transpiler({ loader: "tsx" }) };
  const known = new Set(files);
  return new Map(
    files.map((file) => {
      const text = readFileSync(join(root, file), "utf8");
      const paths = transpilers[file.endsWith("x") ? "tsx" : "ts"].scanImports(text).map(({ path }) => path);
      // types vanish when the code is compiled, and a change of one can break a test all the same
      const pattern = types ? /(?:from|import|URL\()\s*\(?"(\.[^"]+)"/g : /URL\(\s*"(\.[^"]+)"/g;
      for (const [, path = ""] of text.matchAll(pattern)) paths.push(path);
      const imports = paths
        .filter((path) => path.startsWith("."))
        .map((path) => resolve("/", file, "..", path).slice(1));
      if (RUNS_PROGRAM.includes(file)) imports.push(PROGRAM);
      return [file, new Set(imports.filter((path) => known.has(path)))];
    }),
  );
}

/**
 * The test files that a change can break → how many imports away it is. A file that is not code stands for the code in its
 * folder, and a document for the tests of documents.
 */
export function affected(graph: Graph, changed: readonly string[]): Map<string, number> {
  const importers = new Map<string, string[]>();
  for (const [file, imports] of graph)
    for (const path of imports) importers.set(path, [...(importers.get(path) ?? []), file]);
  const stands = (file: string) =>
    isCode(file)
      ? [file]
      : /^docs\/|\.md$/.test(file)
        ? [...graph.keys()].filter((each) => isTest(each) && /docs|language|meta/.test(each))
        : [...graph.keys()].filter((each) => dirname(each) === dirname(file));
  const distance = new Map<string, number>();
  let next = [...new Set(changed.flatMap(stands))];
  for (let steps = 0; next.length > 0; steps++) {
    const fresh = next.filter((file) => !distance.has(file));
    for (const file of fresh) distance.set(file, steps);
    next = [...new Set(fresh.flatMap((file) => importers.get(file) ?? []))];
  }
  return new Map([...distance].filter(([file]) => isTest(file)).sort(([, a], [, b]) => a - b));
}

/** Files that differ from `since`, with what is not committed. */
export function changedFiles(root: string, since: string): string[] {
  const git = (...args: string[]) => {
    const { success, stdout, stderr } = Bun.spawnSync(["git", "-C", root, ...args]);
    if (!success) throw new Error(`git ${args.join(" ")}: ${stderr.toString().trim()}`);
    return stdout.toString().split("\n").filter(Boolean);
  };
  return [...new Set([...git("diff", "--name-only", since), ...git("ls-files", "--others", "--exclude-standard")])];
}

/** File → when it ran last, in ms. Kept beside the downloads of the tests, so that it survives a clone. */
export type LastRuns = Record<string, number>;

export function readLastRuns(path: string): LastRuns {
  return existsSync(path) ? (JSON.parse(readFileSync(path, "utf8")) as LastRuns) : {};
}

type Order = { near: ReadonlyMap<string, number>; lastRuns: LastRuns; turn: string };

/**
 * First what the change can break, the nearest first, then what ran longest ago. Files whose last run is not known follow
 * each other differently for each `turn`, so that all of them run sooner or later.
 */
export function inOrder(files: readonly string[], { near, lastRuns, turn }: Order): string[] {
  const lot = (file: string) => Number(Bun.hash.wyhash(`${turn} ${file}`) % 1_000_000n);
  const key = (file: string) => [near.get(file) ?? Number.MAX_VALUE, lastRuns[file] ?? 0, lot(file)];
  return files
    .map((file) => ({ file, key: key(file) }))
    .sort((a, b) => a.key.map((value, i) => value - (b.key[i] as number)).find((by) => by !== 0) ?? 0)
    .map(({ file }) => file);
}

/** Groups of files that take about `ms` each in so many processes. The budget is checked between two of them. */
export function inBatches(files: readonly string[], timings: Readonly<Record<string, number>>, ms: number): string[][] {
  const UNKNOWN_MS = 2_000;
  const batches: string[][] = [];
  let sum = Number.POSITIVE_INFINITY;
  for (const file of files) {
    if (sum >= ms) {
      batches.push([]);
      sum = 0;
    }
    batches.at(-1)?.push(file);
    sum += timings[file] ?? UNKNOWN_MS;
  }
  return batches;
}
