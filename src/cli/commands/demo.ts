import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { errorText } from "../../lib/error_text.ts";
import { formatDuration } from "../../lib/time.ts";
import { splitRows } from "../../lib/training/sums.ts";
import { command, EXIT, JSON_FLAG } from "../args.ts";
import { STEPS } from "../demo/steps.ts";
import { repeatLines, resultLines } from "../demo/summary.ts";
import { SILENT_VIEWER, stepViewer } from "../demo/viewer.ts";
import type { Step, Walk } from "../demo/walk.ts";
import { INTERRUPTED } from "../interrupt.ts";
import { note, paint, print, printJson } from "../output.ts";

type Result = { title: string; ok: boolean; ms: number; detail: string };

const WIDTH = Math.max(...STEPS.map(({ title }) => title.length));
const DURATION_WIDTH = "59 min 59 s".length;

export const demo = command({
  summary:
    "Try all features on a temporary server; nothing else on this machine is changed, and nothing is left behind",
  flags: {
    json: { ...JSON_FLAG, doc: 'Print {"ok","accuracy","steps":[…]} at the end instead of the progress' },
    rows: { type: "boolean", doc: "Print the training rows and exit" },
  },
  examples: ["verk demo", "verk demo --json", "verk demo --rows > sums.jsonl"],
  exits: { 0: "every step succeeded", 1: "a step failed; the last log lines of the server are shown" },
  async run({ json, rows }) {
    if (rows) {
      for (const row of splitRows().train) printJson(row);
      return EXIT.ok;
    }
    const interrupt = new AbortController();
    const onSignal = () => interrupt.abort();
    for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, onSignal);
    const dir = mkdtempSync(join(tmpdir(), "verk-demo-"));
    const viewer = json ? SILENT_VIEWER : stepViewer(process.stdout);
    const walk: Walk = { dir, viewer, tail: "", signal: interrupt.signal, exits: [], events: [] };
    const results: Result[] = [];
    try {
      for (const step of STEPS) {
        if (!json && process.stdout.isTTY) process.stdout.write(`… ${step.title}`);
        const result = await runStep(step, walk);
        results.push(result);
        if (!json) show(result);
        if (!result.ok) break;
      }
    } finally {
      interrupt.abort(); // kills all child processes and ends the event stream
      await Promise.all(walk.exits); // a server that is still ending would write into the folder
      rmSync(walk.dir, { recursive: true, force: true });
      for (const signal of ["SIGINT", "SIGTERM"]) process.off(signal, onSignal);
    }
    return conclude(results, walk, json);
  },
});

/** Runs a step until it is done or Ctrl-C aborts it. */
async function runStep({ title, run }: Step, walk: Walk): Promise<Result> {
  const startedAt = performance.now();
  const done = (ok: boolean, detail: string) => ({ title, ok, ms: Math.round(performance.now() - startedAt), detail });
  const aborted = Promise.withResolvers<never>();
  const onAbort = () => aborted.reject(new Error("interrupted"));
  walk.signal.addEventListener("abort", onAbort, { once: true });
  try {
    return done(true, await Promise.race([run(walk), aborted.promise]));
  } catch (error) {
    return done(false, errorText(error));
  } finally {
    walk.signal.removeEventListener("abort", onAbort);
  }
}

function show(result: Result) {
  if (process.stdout.isTTY) process.stdout.write("\r\x1b[K");
  print(lineOf(result));
}

/** The details of all steps begin in the same column, also after a step of many minutes. */
export function lineOf({ title, ok, ms, detail }: Result): string {
  const mark = ok ? paint("green", "✓") : paint("red", "✗");
  return `${mark} ${title.padEnd(WIDTH)}  ${formatDuration(ms).padStart(DURATION_WIDTH)}  ${paint("dim", detail)}`;
}

function conclude(results: readonly Result[], walk: Walk, json: boolean): number {
  const failed = results.find(({ ok }) => !ok);
  const total = results.reduce((sum, { ms }) => sum + ms, 0);
  const accuracy = { before: walk.before?.share ?? null, after: walk.after?.share ?? null };
  if (json)
    printJson({ ok: failed === undefined, accuracy, steps: results, ...(failed ? { log_tail: walk.tail } : {}) });
  if (!failed) {
    if (!json) printResult(walk, `${results.length} steps in ${formatDuration(total)}.`);
    return EXIT.ok;
  }
  if (failed.detail === "interrupted") return INTERRUPTED;
  if (!json) {
    note(`\nverk: the demo failed at "${failed.title}": ${failed.detail}`);
    note(`Last log lines of the server:\n${walk.tail.trimEnd() || "(none)"}`);
  }
  return EXIT.failed;
}

function printResult({ before, after }: Walk, done: string) {
  print(`\n${done}\n`);
  if (before && after) for (const line of resultLines(before, after)) print(line);
  print("\nTo repeat this on your own server:\n"); // not indented: the end of a here-document begins its line
  for (const line of repeatLines()) print(line);
}
