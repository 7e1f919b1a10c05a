/**
 * The watch of the event loop (src/platform/turn_watch.ts), armed for all tests: a turn in which the server worked for
 * more than `LIMIT_MS` of processor time fails the test that caused it.
 *
 * In a test process the event loop also runs the test. So the samples of the stack decide which part of a turn was the
 * server's. Neither the work of the test nor the loading of modules and the opening of an application counts. For the
 * executable every turn counts, because `startBinary` finds the warnings in its log.
 *
 * Three things make a turn longer without being work of the server. The first turn of a route or a loop compiles its code:
 * it may take `FIRST_MS`. Other processes take caches and shared cores away: the same small work, done again after a long
 * turn, says how much slower this machine is than at its best. And Linux can spin while it removes a process that has
 * ended (`hurryEnd`): in a turn in which a worker ended, the time of the kernel does not count.
 */
import { afterAll, beforeAll } from "bun:test";
import { hotPath, type StackSample } from "../src/platform/stack_samples.ts";
import { LONG_TURN } from "../src/platform/turn_report.ts";
import { type LongTurn, watchTurns } from "../src/platform/turn_watch.ts";
import { slowness } from "./turns.ts";

const LIMIT_MS = 50;
const FIRST_MS = 150;
const SAMPLE_MS = 5;

/** Settings with which the executable reports what would fail a test. */
export const ARMED = { VERK_WATCHDOG__TURN_MS: String(LIMIT_MS), VERK_WATCHDOG__SAMPLING: "always" };

const found: string[] = [];
let allowedFor: string | undefined;

/**
 * In a file whose long turns are known: `allowLongTurns("why they cannot be shorter")` at its top. The meta test lists
 * these files.
 */
export function allowLongTurns(reason: string) {
  beforeAll(() => {
    allowedFor = reason;
  });
  afterAll(() => {
    allowedFor = undefined;
  });
}

/** The long turns since the last call, for a test that causes them on purpose. */
export const takeLongTurns = (): string[] => found.splice(0);

export function failOnLongTurns() {
  const turns = takeLongTurns();
  if (turns.length > 0 && allowedFor === undefined)
    throw new Error(`The event loop was kept for more than ${LIMIT_MS} ms of processor time:\n${turns.join("\n")}`);
}

export function armLongTurns() {
  for (let i = 0; i < 5; i++) slowness(); // finds the best
  watchTurns({
    longMs: LIMIT_MS,
    sampleMs: SAMPLE_MS,
    sampling: "always",
    onLong(turn) {
      // a test can send many requests in one turn: each of them is a turn of a real server
      const ms = serverMs(turn) / slowness() / Math.max(1, turn.begun);
      if (!isFault(seen, turn.last ?? "", ms)) return;
      const stack = hotPath(turn.samples.filter(isServerSample));
      found.push([`${Math.round(ms)} ms, after ${turn.last}`, ...stack].join("\n    "));
    },
  });
}

/** Notes the warnings of an executable, which is also the test's when its log is read later. `labels`: of this process. */
export function noteLongTurns(line: string, labels: Set<string>) {
  if (!line.includes(LONG_TURN)) return;
  const {
    ms,
    system_ms,
    ended_workers,
    last_begun = "",
  } = JSON.parse(line) as {
    ms: number;
    system_ms: number;
    ended_workers: number;
    last_begun?: string;
  };
  const ownMs = ended_workers > 0 ? ms - system_ms : ms;
  if (isFault(labels, last_begun, ownMs / slowness())) found.push(`the executable: ${line}`);
}

const seen = new Set<string>();

/** Decides about a long turn of a process. `labels` are those whose first long turn has been. */
export function isFault(labels: Set<string>, label: string, ms: number): boolean {
  const isFirst = !labels.has(label);
  labels.add(label);
  return ms >= (isFirst ? FIRST_MS : LIMIT_MS);
}

const FEWEST_SAMPLES = LIMIT_MS / SAMPLE_MS / 2; // fewer say nothing

/** The server's share of the processor time of a turn. */
function serverMs({ ms, samples }: LongTurn): number {
  const own = samples.filter(isServerSample).length;
  return own < FEWEST_SAMPLES ? 0 : (ms * own) / samples.length;
}

/** Code that runs on the serving thread. Beside it, `src` has workers, commands and pages. */
const SERVER = /\/src\/(?:resources|http|events|platform|sandbox)\//;
/** Requests and ticks of loops come in through these. */
const ENTRY = /\/src\/(?:http\/server|platform\/loop)\.ts$/;
const SHARED = /\/src\/lib\/|\/node_modules\//;
const OWN = /\/(?:src|test|scripts)\//;
const WATCH = /\/turn_watch\.ts$/;
/** Functions that run before the first request, or before the first one of a group. The executable's are watched. */
const OPENING = new Set(["createHandler", "mountGroup", "(module)", "evaluate"]);
/** Workers have processes of their own, but tests also call their code. */
const isOther = (url: string) => url.endsWith(".test.ts") || !url.includes("/src/") || url.includes("/src/workers/");

/**
 * True if the server worked: the innermost function is the server's, and it was called by a request, by a tick, or after
 * a promise for which the server had waited.
 */
export function isServerSample({ frames }: StackSample): boolean {
  if (frames.some(({ name }) => OPENING.has(name))) return false;
  const urls = frames.map(({ sourceURL = "" }) => sourceURL).filter((url) => OWN.test(url) && !SHARED.test(url));
  const entry = urls.findIndex((url) => ENTRY.test(url));
  const within = entry === -1 ? urls : urls.slice(0, entry + 1);
  const [innermost = ""] = within;
  return SERVER.test(innermost) && !WATCH.test(innermost) && !within.some(isOther);
}
