/**
 * Stops in order: the last part started is the first to stop, all within one deadline. A step that fails or hangs never
 * keeps the others from running, because the last ones close the database and release the lock.
 */
import type { Clock } from "./clock.ts";
import { systemClock } from "./clock.ts";

type Step = { name: string; stop: (signal: AbortSignal) => unknown };
export type StepReport = { name: string; outcome: "ok" | "failed" | "timed_out"; ms: number; error?: unknown };
export type ShutdownReport = { reason: string; clean: boolean; ms: number; steps: StepReport[] };

type Deps = {
  deadlineMs: number;
  log: Record<"info" | "error", (msg: string, fields?: Record<string, unknown>) => void>;
  clock?: Clock;
};

export type Shutdown = {
  /** `stop`'s signal aborts when half of the step's share of the deadline is spent: the moment to stop being polite. */
  add: (name: string, stop: (signal: AbortSignal) => unknown) => void;
  /** Runs every step once. Later calls get the same report. */
  run: (reason: string) => Promise<ShutdownReport>;
  readonly running: boolean;
  /**
   * SIGTERM or SIGINT runs it and exits 0, or 1 when a step failed or hung. A second signal exits at once with
   * 128 + its number. Returns the undo.
   */
  handleSignals: (exit: (code: number) => void) => () => void;
};

const RESERVE_MS = 500;
const SIGNALS = { SIGINT: 2, SIGTERM: 15 } as const;

/** The time of a step: the rest of the deadline, less a little for each step that comes after it. */
export function stepBudget(leftMs: number, stepsAfter: number): number {
  const reserve = Math.min(RESERVE_MS, Math.max(0, leftMs) / (stepsAfter + 1));
  return Math.max(0, leftMs - reserve * stepsAfter);
}

/** The reason of a start that failed. Its error is the one line that the operator reads. */
export const FAILED_START = "failed to start";

export function createShutdown({ deadlineMs, log, clock = systemClock }: Deps): Shutdown {
  const steps: Step[] = [];
  let report: Promise<ShutdownReport> | undefined;

  async function runAll(reason: string): Promise<ShutdownReport> {
    const began = clock.now();
    if (reason !== FAILED_START)
      log.info("stopping", {
        reason,
        steps: steps.length,
        deadline_ms: deadlineMs,
      });
    const done: StepReport[] = [];
    // Not a snapshot: a step added by a start that is still under way is stopped too.
    for (let step = steps.pop(); step; step = steps.pop()) {
      const left = deadlineMs - (clock.now() - began);
      const result = await runStep(step, stepBudget(left, steps.length), clock);
      done.push(result);
      if (result.outcome !== "ok") {
        log.error(`stopping ${step.name}: ${result.outcome}`, { step: step.name, ms: result.ms, error: result.error });
      }
    }
    const clean = done.every((step) => step.outcome === "ok");
    return { reason, clean, ms: clock.now() - began, steps: done };
  }

  const shutdown: Shutdown = {
    add: (name, stop) => void steps.push({ name, stop }),
    run(reason) {
      report ??= runAll(reason);
      return report;
    },
    get running() {
      return report !== undefined;
    },
    handleSignals(exit) {
      let seen = false;
      const onSignal = (signal: NodeJS.Signals) => {
        if (seen) return exit(128 + SIGNALS[signal as keyof typeof SIGNALS]);
        seen = true;
        void shutdown.run(signal).then((done) => exit(done.clean ? 0 : 1));
      };
      for (const name of Object.keys(SIGNALS)) process.on(name, onSignal);
      return () => {
        for (const name of Object.keys(SIGNALS)) process.off(name, onSignal);
      };
    },
  };
  return shutdown;
}

async function runStep(step: Step, budgetMs: number, clock: Clock): Promise<StepReport> {
  const began = clock.now();
  const spent = new AbortController();
  const finished = new AbortController();
  const done = (outcome: StepReport["outcome"], error?: unknown): StepReport => ({
    name: step.name,
    outcome,
    ms: clock.now() - began,
    ...(error === undefined ? {} : { error }),
  });
  const work = (async () => step.stop(spent.signal))().then(
    () => done("ok"),
    (error) => done("failed", error),
  );
  void clock.sleep(budgetMs / 2, finished.signal).then(() => finished.signal.aborted || spent.abort());
  const limit = clock.sleep(budgetMs, finished.signal).then(() => done("timed_out"));
  const result = await Promise.race([work, limit]);
  finished.abort();
  return result;
}
