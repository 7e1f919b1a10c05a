/**
 * Runs everything before a commit: checks, build, tests. A failed step counts as one failed test and the rest still
 * runs, so the last line has the whole result. A few files that failed are run again, each alone. A test that passes only
 * then is reported as flaky, and with `--full` it counts as failed.
 */
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { startMinio } from "../test/servers/objects.ts";
import { NotAvailable } from "../test/servers/process.ts";
import {
  countsOf,
  flaky,
  NOTHING,
  type Run,
  readRun,
  resumed,
  together,
  toRepeat,
  withSecondTry,
} from "./second_try.ts";
import {
  affected,
  changedFiles,
  inBatches,
  inOrder,
  readGraph,
  readLastRuns,
  testFiles,
  tierOf,
} from "./test_files.ts";
import { parallelFlags, readOptions, TIMINGS } from "./test_options.ts";

const root = dirname(import.meta.dir);
const MOST_CRASHES = 5;
const LAST_COMMITS = 20; // a run with a budget begins with what they can have broken
const BATCH_MS = 90_000;
const TEST_TIMEOUT_MS = 120_000; // for a busy machine; a test that waits names its own condition

async function run(title: string, argv: string[]): Promise<boolean> {
  console.log(`\n── ${title}`);
  const child = Bun.spawn(argv, { cwd: root, stdio: ["ignore", "inherit", "inherit"] });
  const code = await child.exited;
  if (code !== 0) console.error(`${title} failed (${child.signalCode ?? `exit code ${code}`})`);
  return code === 0;
}

function optionsOrExit() {
  const draw = () => crypto.getRandomValues(new Uint32Array(1))[0]!;
  try {
    const seed = process.env["VERK_TEST_SEED"];
    return readOptions(process.argv.slice(2), { cores: availableParallelism(), seed, draw });
  } catch (error) {
    console.error(`scripts/test: ${(error as Error).message}`);
    console.log("\n0 passed, 1 failed");
    process.exit(1);
  }
}
const options = optionsOrExit();
const LAST_RUNS = join(root, ".tools/last_runs.json");
const chosen = chooseFiles();
if (options.list) {
  console.log(`${chosen.join("\n")}\n\n${chosen.length} ${chosen.length === 1 ? "file" : "files"}`);
  process.exit(0);
}

function chooseFiles(): string[] {
  const files = testFiles(root);
  const { filters, choice, since } = options;
  if (filters.length > 0) return files.filter((file) => filters.some((part) => file.includes(part)));
  const near =
    choice === "changed" || options.budgetMs !== undefined
      ? nearChange(choice === "changed" ? since : beforeCommits(LAST_COMMITS))
      : new Map();
  const isChosen = (file: string) =>
    choice === "all" ||
    (choice === "changed"
      ? near.has(file)
      : (tierOf(file, readFileSync(join(root, file), "utf8")) === "quick") === (choice === "quick"));
  const turn = Bun.spawnSync(["git", "-C", root, "rev-parse", "HEAD"]).stdout.toString();
  const mine = files.filter(isChosen);
  return near.size > 0 ? inOrder(mine, { near, lastRuns: readLastRuns(LAST_RUNS), turn }) : mine;
}

/** The commit so many before the last one, or the first that this clone has. */
function beforeCommits(count: number): string {
  const { stdout } = Bun.spawnSync(["git", "-C", root, "rev-list", `--max-count=${count + 1}`, "HEAD"]);
  return stdout.toString().trim().split("\n").at(-1) ?? "HEAD";
}

/** A change is what is not committed, or else the last commit. */
function nearChange(since: string): Map<string, number> {
  const first = changedFiles(root, since);
  return affected(readGraph(root), first.length > 0 ? first : changedFiles(root, "HEAD~1"));
}
const notTested = new Set<string>();

/**
 * One MinIO for a run of all files. It ends with this process. Without it, the tests that need it are skipped with the
 * reason.
 */
async function sharedMinio(): Promise<Record<string, string>> {
  if (options.filters.length > 0 || options.choice === "changed") return {};
  try {
    return { VERK_TEST_MINIO: JSON.stringify(await startMinio()) };
  } catch (error) {
    if (!(error instanceof NotAvailable)) console.error(error);
    return {};
  }
}
let shared: Record<string, string> = {};

/** Runs `bun test` once. Its output is shown and also parsed, because the report lacks some failures. */
async function runTests(title: string, args: string[]): Promise<Run> {
  console.log(`\n── ${title}`);
  const dir = mkdtempSync(join(tmpdir(), "verk-tests-"));
  const report = join(dir, "report.xml");
  const summary = join(dir, "not_tested");
  const flags = [`--timeout=${TEST_TIMEOUT_MS}`, "--reporter=junit", `--reporter-outfile=${report}`];
  const child = Bun.spawn(["bun", "test", ...flags, ...args], {
    cwd: root,
    stdio: ["ignore", "inherit", "pipe"],
    env: {
      ...process.env,
      ...(process.stderr.isTTY ? { FORCE_COLOR: "1" } : {}),
      VERK_BINARY: process.env["VERK_BINARY"] ?? join(root, "dist/verk"),
      ...shared,
      VERK_TEST_SUMMARY: summary,
      VERK_TEST_SEED: `${options.seed}`,
      VERK_TEST_FULL: options.full ? "1" : "0",
    },
  });
  let output = "";
  const decoder = new TextDecoder();
  for await (const chunk of child.stderr) {
    process.stderr.write(chunk);
    output += decoder.decode(chunk, { stream: true });
  }
  const code = await child.exited;
  if (code !== 0) console.error(`${title} failed (${child.signalCode ?? `exit code ${code}`})`);
  const read = (path: string) => (existsSync(path) ? readFileSync(path, "utf8") : "");
  const run = readRun(code, read(report), output);
  for (const what of read(summary).trim().split("\n")) if (what !== "") notTested.add(what);
  rmSync(dir, { recursive: true, force: true });
  return run;
}

/** Fetching the real servers waits for the network, so it goes on beside the checks and the build. */
const fetching = Bun.spawn(["scripts/servers"], { cwd: root, stdio: ["ignore", "pipe", "pipe"] });
const fetched = Promise.all([new Response(fetching.stdout).text(), new Response(fetching.stderr).text()]);

let brokenSteps = 0;
if (options.choice !== "rest" && !(await run("checks", ["bun", "scripts/check.ts"]))) brokenSteps++; // with the first tier
if (!(await run("executable", ["bun", "scripts/build.ts", "--if-stale"]))) brokenSteps++;
console.log(`\n── servers\n${(await fetched).join("")}`); // if a server is missing, its tests are skipped with the reason
const flags = process.argv.slice(2).map((each) => ` ${each}`);
const repeat = `VERK_TEST_SEED=${options.seed} ./scripts/test${flags.join("")}`;
console.log(`\nseed ${options.seed}, ${options.full ? "full" : "quick"} sweeps; to repeat them: ${repeat}`);
const begun = performance.now();
shared = await sharedMinio();
const isLate = () => performance.now() - begun >= (options.budgetMs ?? Number.POSITIVE_INFINITY);
const timings = (JSON.parse(readFileSync(join(root, TIMINGS), "utf8")) as { files: Record<string, number> }).files;
const batches = options.budgetMs === undefined ? [chosen] : inBatches(chosen, timings, BATCH_MS * options.jobs);
let first: Run = NOTHING;
const leftOut: string[] = [];
for (const batch of batches) {
  if (isLate()) leftOut.push(...batch);
  else first = together(first, await runBatch(batch));
}

/** Bun aborts all files when one process crashes in native code. Each further run has at least one file less. */
async function runBatch(files: readonly string[]): Promise<Run> {
  const paths = (list: readonly string[]) => list.map((file) => `./${file}`);
  let run = await runTests("tests", [...parallelFlags(options), ...paths(files)]);
  for (let i = 0; i < MOST_CRASHES && run.aborted.length > 0; i++)
    run = resumed(run, await runTests("tests, after a crash", [...parallelFlags(options), ...paths(run.aborted)]));
  noteRuns(files);
  return run;
}

function noteRuns(files: readonly string[]) {
  const now = Date.now();
  const runs = { ...readLastRuns(LAST_RUNS), ...Object.fromEntries(files.map((file) => [file, now])) };
  mkdirSync(dirname(LAST_RUNS), { recursive: true });
  writeFileSync(LAST_RUNS, JSON.stringify(runs));
}
let last = first;
for (const file of toRepeat(first))
  last = withSecondTry(last, file, await runTests(`${file}, second try`, [`./${file}`]));
const counts = countsOf(last);
const lucky = flaky(first, last);
const failed = counts.failed + brokenSteps + (options.full ? lucky.length : 0);
const passed = counts.passed - (options.full ? lucky.length : 0);
const left = leftOut.map((file) => `left out, the budget is spent: ${file}`);
const notes = [...left, ...[...notTested].sort().map((what) => `not tested: ${what}`), ...lucky];
if (failed > 0) notes.push(`to repeat with the same seed: ${repeat}`);
if (notes.length > 0) console.log(`\n${notes.join("\n")}`);
console.log(`\nthe tests took ${Math.round((performance.now() - begun) / 1000)} s in ${options.jobs} processes`);
console.log(`\n${passed} passed, ${failed} failed${counts.skipped > 0 ? `, ${counts.skipped} skipped` : ""}`);
process.exit(failed === 0 ? 0 : 1);
