/** The watch of the server: counts turns of the event loop for `GET /v1/metrics`, and writes a warning for a long one. */
import { MINUTE_MS } from "../lib/units.ts";
import type { Config } from "./config/config.ts";
import type { Db } from "./db/db.ts";
import type { Log } from "./log.ts";
import { histogram, observe } from "./metrics.ts";
import { hotPath } from "./stack_samples.ts";
import { type LongTurn, watchTurns } from "./turn_watch.ts";

const turns = histogram(
  "verk_event_loop_turn_seconds",
  "Processor time of turns of the event loop of at least 10 ms",
  [],
  [0.02, 0.05, 0.1, 0.2, 0.5, 1, 5],
);

export const LONG_TURN = "a turn of the event loop was long";
const LINE_EVERY_MS = MINUTE_MS; // for each cause
const MOST_CAUSES = 500;
const SAMPLES_PER_LONG_TURN = 4;

/** `ctx.state.turns`. */
export class TurnsState {
  stop: () => void = () => {};
}

type Deps = { db: Db; log: Log; config: Pick<Config, "watchdog">; state: { turns: TurnsState } };

export function beginTurns({ db, log, config: { watchdog }, state }: Deps) {
  if (watchdog.turn_ms === 0) return;
  const series = turns.at(db, "", []);
  const { stop } = watchTurns({
    longMs: watchdog.turn_ms,
    sampleMs: Math.max(1, Math.floor(watchdog.turn_ms / SAMPLES_PER_LONG_TURN)),
    sampling: watchdog.sampling,
    onTurn: (ms) => observe(series, ms / 1000),
    onLong: reportTo(log),
  });
  state.turns.stop = stop;
}

/**
 * One line a minute for each cause, so that a loop that is always slow does not fill the log. The first line with a stack
 * is shown at once.
 */
export function reportTo(log: Pick<Log, "warn">, now: () => number = () => performance.now()) {
  const lines = new Map<string, { at: number; hasStack: boolean; more: number }>();
  return ({ ms, systemMs, ended, last: cause = "", underWay, samples }: LongTurn) => {
    const line = lines.get(cause);
    const hasStack = samples.length > 0;
    const isNews = line === undefined || now() - line.at >= LINE_EVERY_MS || (hasStack && !line.hasStack);
    if (!isNews) {
      line.more += 1;
      return;
    }
    if (lines.size >= MOST_CAUSES) lines.clear();
    lines.set(cause, { at: now(), hasStack, more: 0 });
    const more = line === undefined || line.more === 0 ? {} : { not_shown: line.more };
    log.warn(LONG_TURN, {
      ms: Math.round(ms),
      system_ms: Math.round(systemMs),
      ended_workers: ended,
      last_begun: cause,
      under_way: underWay,
      ...more,
      stack: hotPath(samples),
    });
  };
}
