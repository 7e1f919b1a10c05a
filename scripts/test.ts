/**
 * Everything that must hold before a commit: checks, the executable, the tests. A step that fails counts as one failed
 * test and the rest still runs, so one line at the end tells the whole story.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

const root = dirname(import.meta.dir);
const TEST_TIMEOUT_MS = 30_000;

async function run(title: string, argv: string[], env: Record<string, string> = {}): Promise<boolean> {
  console.log(`\n── ${title}`);
  const child = Bun.spawn(argv, {
    cwd: root,
    stdio: ["ignore", "inherit", "inherit"],
    env: { ...process.env, ...env },
  });
  const code = await child.exited;
  if (code !== 0) console.error(`${title} failed (${child.signalCode ?? `exit code ${code}`})`);
  return code === 0;
}

type Counts = { passed: number; failed: number; skipped: number };
type Outcome = Counts & { notTested: string[] };

/** The totals stand in the attributes of the report's root element. */
function readReport(xml: string): Counts {
  const head = /<testsuites\b[^>]*>/.exec(xml)?.[0] ?? "";
  const count = (name: string) => Number(new RegExp(`\\b${name}="(\\d+)"`).exec(head)?.[1] ?? 0);
  const failed = count("failures") + count("errors");
  const skipped = count("skipped");
  return { passed: count("tests") - failed - skipped, failed, skipped };
}

async function runTests(filters: string[]): Promise<Outcome> {
  const dir = mkdtempSync(join(tmpdir(), "verk-tests-"));
  const report = join(dir, "report.xml");
  const summary = join(dir, "not_tested");
  const options = [`--timeout=${TEST_TIMEOUT_MS}`, "--reporter=junit", `--reporter-outfile=${report}`];
  const binary = process.env["VERK_BINARY"] ?? join(root, "dist/verk");
  const ok = await run("tests", ["bun", "test", ...options, ...filters], {
    VERK_BINARY: binary,
    VERK_TEST_SUMMARY: summary,
  });
  const counts = existsSync(report) ? readReport(readFileSync(report, "utf8")) : { passed: 0, failed: 0, skipped: 0 };
  const notTested = existsSync(summary) ? readFileSync(summary, "utf8").trim().split("\n") : [];
  rmSync(dir, { recursive: true, force: true });
  const silent = counts.failed === 0 && (!ok || counts.passed === 0); // the runner crashed, or there was nothing to run
  return { ...counts, failed: silent ? 1 : counts.failed, notTested: [...new Set(notTested)].sort() };
}

let brokenSteps = 0;
if (!(await run("checks", ["bun", "scripts/check.ts"]))) brokenSteps++;
if (!(await run("executable", ["bun", "scripts/build.ts", "--if-stale"]))) brokenSteps++;
await run("servers", ["scripts/servers"]); // where one is missing, its tests say so
const counts = await runTests(process.argv.slice(2));
const failed = counts.failed + brokenSteps;
if (counts.notTested.length > 0) console.log("");
for (const what of counts.notTested) console.log(`not tested: ${what}`);
console.log(`\n${counts.passed} passed, ${failed} failed${counts.skipped > 0 ? `, ${counts.skipped} skipped` : ""}`);
process.exit(failed === 0 ? 0 : 1);
