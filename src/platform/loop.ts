/**
 * A background loop: ticks on a schedule and when woken, never twice at a time. A tick reads what is due from the
 * database, so a wake is only a hint: losing one costs a delay, never work.
 */

import { Cron } from "croner";
import { nextTurn } from "../lib/turns.ts";
import { MINUTE_MS, SECOND_MS } from "../lib/units.ts";
import type { Clock } from "./clock.ts";
import { enter, leave } from "./turn_watch.ts";

export type LoopSpec = {
  name: string;
  /** A cron pattern (UTC, optional seconds), first at its next time; or a pause between ticks, first at once. */
  schedule: string | { everyMs: number };
  /** `signal` aborts when the loop is stopped. A tick must not await its own loop's `stop()`. */
  tick: (signal: AbortSignal) => Promise<void> | void;
};

export type Loop = {
  readonly name: string;
  /** Asks for a tick. Cheap and synchronous; any number of wakes before the next tick begins are one. */
  wake: () => void;
  /** Aborts the signal, waits for the running tick. Safe to call twice. */
  stop: () => Promise<void>;
  /** Resolves when no tick is running and no wake is waiting. */
  idle: () => Promise<void>;
};

type Deps = {
  log: { error: (msg: string, fields?: Record<string, unknown>) => void };
  clock: Clock;
};

const FIRST_RETRY_MS = SECOND_MS;
const LAST_RETRY_MS = MINUTE_MS;
const LONGEST_SLEEP_MS = MINUTE_MS; // a cron time is looked up again at least this often, so a changed clock is noticed

/** Pause after the n-th failure in a row: 1 s, 2 s, 4 s … 1 min. */
export function nextDelay(failures: number): number {
  return Math.min(FIRST_RETRY_MS * 2 ** Math.max(0, failures - 1), LAST_RETRY_MS);
}

export function startLoop(spec: LoopSpec, { log, clock }: Deps): Loop {
  const stopping = new AbortController();
  const pause = pauses(spec, clock);
  let woken = false;
  let ticking = false;
  let failures = 0;
  let bell: AbortController | undefined; // cuts the current pause short
  const waiters: (() => void)[] = [];

  const settle = () => {
    if (ticking || (woken && !stopping.signal.aborted)) return;
    for (const resolve of waiters.splice(0)) resolve();
  };

  async function once() {
    woken = false; // before the tick: a wake from here on asks for another one
    ticking = true;
    enter(spec, nameOf);
    try {
      await spec.tick(stopping.signal);
      failures = 0;
    } catch (error) {
      if (stopping.signal.aborted && isAbort(error, stopping.signal)) return;
      failures += 1;
      log.error(`loop ${spec.name} failed`, { loop: spec.name, failures, retry_ms: nextDelay(failures), error });
    } finally {
      leave(spec);
      ticking = false;
      settle();
    }
  }

  async function run() {
    let first = true;
    while (!stopping.signal.aborted) {
      bell = new AbortController();
      if (failures > 0) {
        await clock.sleep(nextDelay(failures), stopping.signal); // wakes wait too, or they would undo the pause
      } else if (!woken) {
        await pause(first, bell.signal);
      }
      first = false;
      await nextTurn(); // of its own: requests are answered between many loops that begin, and ticks that wake each other
      if (stopping.signal.aborted) break;
      await once();
    }
    woken = false;
    settle();
  }

  const running = run();
  return {
    name: spec.name,
    wake() {
      if (woken || stopping.signal.aborted) return;
      woken = true;
      bell?.abort();
    },
    async stop() {
      stopping.abort();
      bell?.abort();
      await running;
    },
    async idle() {
      if (!ticking && (!woken || stopping.signal.aborted)) return;
      await new Promise<void>((resolve) => waiters.push(resolve));
    },
  };
}

function pauses(spec: LoopSpec, clock: Clock): (first: boolean, signal: AbortSignal) => Promise<void> {
  const { schedule } = spec;
  if (typeof schedule !== "string") {
    return async (first, signal) => {
      if (!first) await clock.sleep(schedule.everyMs, signal);
    };
  }
  const cron = new Cron(schedule, { utcOffset: 0 }); // not by the zone's name: that asks Intl, a millisecond each time
  if (!cron.nextRun(new Date(clock.now()))) throw new Error(`Loop ${spec.name}: "${schedule}" never comes`);
  return async (_first, signal) => {
    const due = cron.nextRun(new Date(clock.now()))?.getTime() ?? Number.POSITIVE_INFINITY;
    while (!signal.aborted && clock.now() < due) {
      await clock.sleep(Math.min(due - clock.now(), LONGEST_SLEEP_MS), signal);
    }
  };
}

const nameOf = ({ name }: LoopSpec) => `loop ${name}`;

const isAbort = (error: unknown, signal: AbortSignal) =>
  error === signal.reason || (error instanceof Error && error.name === "AbortError");
