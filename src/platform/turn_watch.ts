/**
 * Measures how long the event loop is kept: while one turn of it runs, no other request is answered. A timer reads the
 * processor time of this thread. A long turn makes it late by about the length of the turn, by at most one pause less.
 * If other processes had the processor, the time that this thread used is shorter, and that time counts.
 *
 * A long turn is given with the work that was under way, and with samples of its stack.
 *
 * The event loop belongs to the thread, so the work under way does too: it is of this module, and one watch reads it.
 */
import { MINUTE_MS } from "../lib/units.ts";
import { type Sampling, type StackSample, startSampling } from "./stack_samples.ts";

/** Names a request or a tick. Called only for a long turn. */
type NameOf<T> = (work: T) => string;

export type LongTurn = {
  ms: number;
  /** The part of it that the kernel used. */
  systemMs: number;
  /** Workers that ended in the turn: the kernel can spin while it removes one. */
  ended: number;
  /** Requests and ticks that began in the turn. */
  begun: number;
  /** The request or tick that began last; often it is the cause. */
  last: string | undefined;
  underWay: string[];
  samples: StackSample[];
};

export type WatchOptions = {
  /** A turn of this much processor time is long. */
  longMs: number;
  /** Pause between two samples of the stack. */
  sampleMs: number;
  /** When samples are taken: they cost some percent of the work that they sample. */
  sampling: "never" | "after_long_turn" | "always";
  /** Every turn of at least `COUNTED_MS`. */
  onTurn?: (ms: number) => void;
  onLong: (turn: LongTurn) => void;
};

/** Shorter turns are not counted: at rest nothing changes, so nothing is written. */
const COUNTED_MS = 10;
const MOST_SHOWN = 8;
const PAUSES_PER_LONG_TURN = 4; // so a turn of the limit is underrated by a quarter at most
const TAKEN_EVERY_MS = 250; // samples of short turns are thrown away this often: many at once would be a long turn
const SAMPLED_MS = 10 * MINUTE_MS; // after a long turn, because most of them come again

const underWay = new Map<object, NameOf<never>>();
let last: object | undefined;
let nameOfLast: NameOf<never> = () => "";
let begun = 0;
let ended = 0;
let isWatched = false;

/** `work` begins: a request, or a tick of a loop. `leave` with the same object ends it. */
export function enter<T extends object>(work: T, nameOf: NameOf<T>) {
  if (!isWatched) return;
  begun += 1;
  underWay.set(work, nameOf as NameOf<never>);
  last = work;
  nameOfLast = nameOf as NameOf<never>;
}

export function noteEnded() {
  ended += 1;
}

export function leave(work: object) {
  underWay.delete(work);
}

/** Begins to measure. While one watch of this thread goes on, another does nothing. */
export function watchTurns(options: WatchOptions): { stop: () => void } {
  const { longMs, onTurn = () => {}, onLong } = options;
  if (isWatched) return { stop() {} };
  isWatched = true;
  const everyMs = Math.max(1, Math.floor(longMs / PAUSES_PER_LONG_TURN));
  const sampler = openSampler(options);
  let before = process.threadCpuUsage();
  let begunAt = performance.now();

  function measure() {
    const lateMs = performance.now() - begunAt - everyMs;
    const now = process.threadCpuUsage();
    const systemMs = (now.system - before.system) / 1000;
    const ms = Math.min(lateMs, systemMs + (now.user - before.user) / 1000);
    if (ms >= COUNTED_MS) onTurn(ms);
    if (ms >= longMs) {
      const names = [...underWay].slice(0, MOST_SHOWN).map(([work, nameOf]) => nameOf(work as never));
      onLong({
        ms,
        systemMs: Math.min(ms, systemMs),
        ended,
        begun,
        last: last && nameOfLast(last as never),
        underWay: names,
        samples: sampler.samplesSince(begunAt),
      });
      sampler.noteLongTurn();
    } else sampler.discard();
    begun = 0;
    ended = 0;
    before = process.threadCpuUsage(); // a report is not part of the next turn
    begunAt = performance.now();
  }
  const timer = setInterval(measure, everyMs);
  timer.unref();
  return {
    stop() {
      clearInterval(timer);
      sampler.stop();
      isWatched = false;
      last = undefined;
      underWay.clear();
    },
  };
}

/** The samples of one watch, which are taken at some times only. */
function openSampler({ sampleMs, sampling: when }: WatchOptions) {
  let sampling: Sampling | undefined;
  let takenAt = performance.now();
  let until = when === "always" ? Number.POSITIVE_INFINITY : 0;
  if (when === "always") sampling = startSampling(sampleMs);

  function take(): StackSample[] {
    takenAt = performance.now();
    return sampling?.take() ?? [];
  }
  return {
    samplesSince(begunAt: number): StackSample[] {
      const seconds = (performance.now() - begunAt) / 1000;
      const samples = take();
      const end = samples.at(-1)?.timestamp ?? 0; // the clock of the samples is another, but the last one is from now
      return samples.filter(({ timestamp }) => end - timestamp <= seconds);
    },
    noteLongTurn() {
      if (when !== "after_long_turn") return;
      until = performance.now() + SAMPLED_MS;
      sampling ??= startSampling(sampleMs);
    },
    /** Throws away samples of short turns. Ends the sampling when its time is over. */
    discard() {
      const now = performance.now();
      if (sampling === undefined || now - takenAt < TAKEN_EVERY_MS) return;
      take();
      if (now < until) return;
      sampling.stop();
      sampling = undefined;
    },
    stop: () => sampling?.stop(),
  };
}
