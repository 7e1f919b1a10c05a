/**
 * Runs everything before a commit: checks, build, tests. A failed step counts as one failed test and the rest still
 * runs, so the last line has the whole result. A few files that failed are run again, each alone. A test that passes only
 * then is reported as flaky, and with `--full` it counts as failed.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { startMinio } from "../test/servers/objects.ts";
import { NotAvailable } from "../test/servers/process.ts";
import { countsOf, flaky, type Run, readRun, resumed, toRepeat, withSecondTry } from "./second_try.ts";
import { parallelFlags, readOptions } from "./test_options.ts";

const root = dirname(import.meta.dir);
const MOST_CRASHES = 5;
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
if (options.list) {
  const files = [...new Bun.Glob("{src,test,scripts,bench}/**/*.test.ts").scanSync(root)].sort();
  const chosen = files.filter(
    (file) => options.filters.length === 0 || options.filters.some((part) => file.includes(part)),
  );
  console.log(`${chosen.join("\n")}\n\n${chosen.length} ${chosen.length === 1 ? "file" : "files"}`);
  process.exit(0);
}
const notTested = new Set<string>();

/**
 * One MinIO for a run of all files. It ends with this process. Without it, the tests that need it are skipped with the
 * reason.
 */
async function sharedMinio(): Promise<Record<string, string>> {
  if (options.filters.length > 0) return {};
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

let brokenSteps = 0;
if (!(await run("checks", ["bun", "scripts/check.ts"]))) brokenSteps++;
if (!(await run("executable", ["bun", "scripts/build.ts", "--if-stale"]))) brokenSteps++;
await run("servers", ["scripts/servers"]); // if a server is missing, its tests are skipped with the reason
const repeat = `VERK_TEST_SEED=${options.seed} ./scripts/test${options.full ? " --full" : ""}`;
console.log(`\nseed ${options.seed}, ${options.full ? "full" : "quick"} sweeps; to repeat them: ${repeat}`);
const begun = performance.now();
shared = await sharedMinio();
let first = await runTests("tests", [...parallelFlags(options), ...options.filters]);
// Bun aborts all files when one process crashes in native code. Each further run has at least one file less.
for (let i = 0; i < MOST_CRASHES && first.aborted.length > 0; i++) {
  const left = first.aborted.map((file) => `./${file}`);
  first = resumed(first, await runTests("tests, after a crash", [...parallelFlags(options), ...left]));
}
let last = first;
for (const file of toRepeat(first))
  last = withSecondTry(last, file, await runTests(`${file}, second try`, [`./${file}`]));
const counts = countsOf(last);
const lucky = flaky(first, last);
const failed = counts.failed + brokenSteps + (options.full ? lucky.length : 0);
const passed = counts.passed - (options.full ? lucky.length : 0);
const notes = [...[...notTested].sort().map((what) => `not tested: ${what}`), ...lucky];
if (failed > 0) notes.push(`to repeat with the same seed: ${repeat}`);
if (notes.length > 0) console.log(`\n${notes.join("\n")}`);
console.log(`\nthe tests took ${Math.round((performance.now() - begun) / 1000)} s in ${options.jobs} processes`);
console.log(`\n${passed} passed, ${failed} failed${counts.skipped > 0 ? `, ${counts.skipped} skipped` : ""}`);
process.exit(failed === 0 ? 0 : 1);
