/**
 * The time by which old things are deleted. A wrong clock must not delete anything early, so a jump ahead counts only
 * as far as the steady clock explains it. After a day of uptime with the new time, the jump counts as real.
 */
import { DAY_MS, HOUR_MS } from "../lib/units.ts";
import type { Clock } from "./clock.ts";

/** A jump within this is drift, or a correction by a time server. */
const DRIFT_MS = HOUR_MS;
/** A server that was off for this long believes the clock at its start. */
const OFF_MS = 3 * DAY_MS;
/** Uptime after which a jump is believed. */
export const WAIT_MS = DAY_MS;

/** `trusted` was the time at `steady`. `waited`: uptime since the clock jumped ahead; 0: the clock is believed. */
export type Anchor = { trusted: number; steady: number; waited: number };
export type StoredTime = Pick<Anchor, "trusted" | "waited">;

export function judge(last: Anchor, now: number, steady: number): Anchor {
  const passed = steady - last.steady;
  const explained = last.trusted + passed;
  if (now <= explained + DRIFT_MS) return { trusted: now, steady, waited: 0 };
  const waited = last.waited + passed;
  return waited >= WAIT_MS ? { trusted: now, steady, waited: 0 } : { trusted: explained, steady, waited };
}

/** At a start there is no uptime to compare with, only what the last server wrote down. */
export function judgeStart(kept: StoredTime | undefined, now: number, steady: number): Anchor {
  if (kept === undefined || now <= kept.trusted + OFF_MS) return { trusted: now, steady, waited: 0 };
  return { ...kept, steady };
}

export class TrustedClock {
  #anchor: Anchor;

  constructor(readonly clock: Pick<Clock, "now" | "steady">) {
    this.#anchor = judgeStart(undefined, clock.now(), clock.steady());
  }

  begin(kept: StoredTime | undefined) {
    this.#anchor = judgeStart(kept, this.clock.now(), this.clock.steady());
  }

  /** Whole epoch milliseconds, like the clock's own. Never ahead of the clock. */
  now(): number {
    return Math.floor(this.observe().trusted);
  }

  /** True while the clock is ahead of what uptime explains. */
  get isSuspect(): boolean {
    return this.observe().trusted < this.clock.now();
  }

  observe(): Anchor {
    this.#anchor = judge(this.#anchor, this.clock.now(), this.clock.steady());
    return this.#anchor;
  }
}
