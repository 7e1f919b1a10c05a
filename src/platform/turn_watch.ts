/**
 * Measures how long the event loop is kept: while one turn of it runs, no other request is answered. The processor time
 * of this thread is read when a request or a loop's tick begins and ends, and by a timer. Between two such marks lies at
 * most one turn, and short ones beside it. Time in which other processes had the processor does not count.
 *
 * A long turn is given with the work that was under way, and with the stack that most samples of it share.
 *
 * The event loop belongs to the thread, so the marks do too: they are of this module, and only one watch reads them.
 */
import { type Sampling, type StackSample, startSampling } from "./stack_samples.ts";

/** Names a request or a tick. Called only for a long turn. */
type NameOf<T> = (work: T) => string;

export type LongTurn = {
  ms: number;
  /** The request or tick that began last; often it is the cause. */
  last: string | undefined;
  underWay: string[];
  samples: StackSample[];
};

export type WatchOptions = {
  /** A turn of this much processor time is long. */
  longMs: number;
  /** Pause between two samples of the stack; 0: none are taken. */
  sampleMs: number;
  /** Every turn of at least `COUNTED_MS`. */
  onTurn?: (ms: number) => void;
  onLong: (turn: LongTurn) => void;
};

/** Shorter turns are not counted: at rest nothing changes, so nothing is written. */
export const COUNTED_MS = 10;
const MOST_SHOWN = 8;
const MARKS_PER_LONG_TURN = 4; // the timer's share of the limit, and so the most by which a turn is overrated
const TAKEN_EVERY_MS = 2_000; // samples of short turns are thrown away this often

const underWay = new Map<object, NameOf<never>>();
let last: { work: object; nameOf: NameOf<never> } | undefined;
let mark: (() => void) | undefined;

/** `work` begins: a request, or a tick of a loop. `leave` with the same object ends it. */
export function enter<T extends object>(work: T, nameOf: NameOf<T>) {
  if (mark === undefined) return;
  mark();
  underWay.set(work, nameOf as NameOf<never>);
  last = { work, nameOf: nameOf as NameOf<never> };
}

export function leave(work: object) {
  if (mark === undefined) return;
  mark();
  underWay.delete(work);
}

/** Begins to measure. While one watch of this thread goes on, another does nothing. */
export function watchTurns({ longMs, sampleMs, onTurn = () => {}, onLong }: WatchOptions): { stop: () => void } {
  if (mark !== undefined) return { stop() {} };
  const sampling: Sampling | undefined = sampleMs > 0 ? startSampling(sampleMs) : undefined;
  const everyMs = Math.max(1, Math.floor(longMs / MARKS_PER_LONG_TURN));
  let usedUs = threadUs();
  let begunAt = performance.now();
  let takenAt = begunAt;

  function samplesOfTurn(): StackSample[] {
    takenAt = performance.now();
    const seconds = (takenAt - begunAt) / 1000;
    const samples = sampling?.take() ?? [];
    const end = samples.at(-1)?.timestamp ?? 0; // the clock of the samples is another, but the last one is from now
    return samples.filter(({ timestamp }) => end - timestamp <= seconds);
  }
  function own() {
    const now = threadUs();
    const ms = (now - usedUs) / 1000;
    usedUs = now;
    if (ms >= COUNTED_MS) onTurn(ms);
    if (ms >= longMs) {
      const names = [...underWay].slice(0, MOST_SHOWN).map(([work, nameOf]) => nameOf(work as never));
      onLong({ ms, last: last?.nameOf(last.work as never), underWay: names, samples: samplesOfTurn() });
      usedUs = threadUs(); // the report is not part of the next turn
    }
    begunAt = performance.now();
  }
  mark = own;
  const timer = setInterval(() => {
    own();
    if (sampling && begunAt - takenAt > TAKEN_EVERY_MS) {
      samplesOfTurn();
      usedUs = threadUs();
    }
  }, everyMs);
  timer.unref();
  return {
    stop() {
      clearInterval(timer);
      sampling?.stop();
      mark = undefined;
      last = undefined;
      underWay.clear();
    },
  };
}

function threadUs(): number {
  const { user, system } = process.threadCpuUsage();
  return user + system;
}
