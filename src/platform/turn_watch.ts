/**
 * Measures how long the event loop is kept: while one turn of it runs, no other request is answered. A timer reads the
 * processor time of this thread. A long turn makes it late by about the length of the turn, by at most one pause less.
 * Where other processes had the processor, the time that this thread used is shorter, and counts.
 *
 * A long turn is given with the work that was under way, and with the stack that most samples of it share.
 *
 * The event loop belongs to the thread, so the work under way does too: it is of this module, and one watch reads it.
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
const PAUSES_PER_LONG_TURN = 8; // so a turn of the limit is underrated by an eighth at most
const TAKEN_EVERY_MS = 2_000; // samples of short turns are thrown away this often

const underWay = new Map<object, NameOf<never>>();
let last: { work: object; nameOf: NameOf<never> } | undefined;
let isWatched = false;

/** `work` begins: a request, or a tick of a loop. `leave` with the same object ends it. */
export function enter<T extends object>(work: T, nameOf: NameOf<T>) {
  if (!isWatched) return;
  underWay.set(work, nameOf as NameOf<never>);
  last = { work, nameOf: nameOf as NameOf<never> };
}

export function leave(work: object) {
  underWay.delete(work);
}

/** Begins to measure. While one watch of this thread goes on, another does nothing. */
export function watchTurns({ longMs, sampleMs, onTurn = () => {}, onLong }: WatchOptions): { stop: () => void } {
  if (isWatched) return { stop() {} };
  isWatched = true;
  const sampling: Sampling | undefined = sampleMs > 0 ? startSampling(sampleMs) : undefined;
  const everyMs = Math.max(1, Math.floor(longMs / PAUSES_PER_LONG_TURN));
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
  function measure() {
    const lateMs = performance.now() - begunAt - everyMs;
    const ms = Math.min(lateMs, (threadUs() - usedUs) / 1000);
    if (ms >= COUNTED_MS) onTurn(ms);
    if (ms >= longMs) {
      const names = [...underWay].slice(0, MOST_SHOWN).map(([work, nameOf]) => nameOf(work as never));
      onLong({ ms, last: last?.nameOf(last.work as never), underWay: names, samples: samplesOfTurn() });
    } else if (begunAt - takenAt > TAKEN_EVERY_MS) samplesOfTurn();
    usedUs = threadUs(); // a report is not part of the next turn
    begunAt = performance.now();
  }
  const timer = setInterval(measure, everyMs);
  timer.unref();
  return {
    stop() {
      clearInterval(timer);
      sampling?.stop();
      isWatched = false;
      last = undefined;
      underWay.clear();
    },
  };
}

function threadUs(): number {
  const { user, system } = process.threadCpuUsage();
  return user + system;
}
