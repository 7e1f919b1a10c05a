/**
 * Everything that must hold before a commit: checks, the executable, the tests. A step that fails counts as one failed
 * test and the rest still runs, so one line at the end tells the whole story. A few files that failed are run once more,
 * each by itself.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { countsOf, flaky, type Run, readRun, toRepeat, withSecondTry } from "./second_try.ts";

const root = dirname(import.meta.dir);
const TEST_TIMEOUT_MS = 120_000; // for a busy machine; a test that waits says itself what for

async function run(title: string, argv: string[]): Promise<boolean> {
  console.log(`\n── ${title}`);
  const child = Bun.spawn(argv, { cwd: root, stdio: ["ignore", "inherit", "inherit"] });
  const code = await child.exited;
  if (code !== 0) console.error(`${title} failed (${child.signalCode ?? `exit code ${code}`})`);
  return code === 0;
}

/** One `bun test`: what it prints is shown, and kept for what its report leaves out. */
async function runTests(title: string, filters: string[], notTested: Set<string>): Promise<Run> {
  console.log(`\n── ${title}`);
  const dir = mkdtempSync(join(tmpdir(), "verk-tests-"));
  const report = join(dir, "report.xml");
  const summary = join(dir, "not_tested");
  const options = [`--timeout=${TEST_TIMEOUT_MS}`, "--reporter=junit", `--reporter-outfile=${report}`];
  const child = Bun.spawn(["bun", "test", ...options, ...filters], {
    cwd: root,
    stdio: ["ignore", "inherit", "pipe"],
    env: {
      ...process.env,
      ...(process.stderr.isTTY ? { FORCE_COLOR: "1" } : {}),
      VERK_BINARY: process.env["VERK_BINARY"] ?? join(root, "dist/verk"),
      VERK_TEST_SUMMARY: summary,
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
await run("servers", ["scripts/servers"]); // where one is missing, its tests say so
const notTested = new Set<string>();
const first = await runTests("tests", process.argv.slice(2), notTested);
let last = first;
for (const file of toRepeat(first))
  last = withSecondTry(last, file, await runTests(`${file}, once more`, [`./${file}`], notTested));
const counts = countsOf(last);
const failed = counts.failed + brokenSteps;
const notes = [...[...notTested].sort().map((what) => `not tested: ${what}`), ...flaky(first, last)];
if (notes.length > 0) console.log(`\n${notes.join("\n")}`);
console.log(`\n${counts.passed} passed, ${failed} failed${counts.skipped > 0 ? `, ${counts.skipped} skipped` : ""}`);
process.exit(failed === 0 ? 0 : 1);
