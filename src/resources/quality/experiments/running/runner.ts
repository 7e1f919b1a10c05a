/**
 * The loop `experiments.run`. The rows are the queue: an item is due until its result is written. Only this process knows
 * what is under way, so a kill at any line costs at most the repetition of an item that has no result.
 */
import { eq, isNull, sql } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { oldestOfEach } from "../../../../platform/db/oldest_of_each.ts";
import { preparedRow } from "../../../../platform/db/row.ts";
import { nextDelay } from "../../../../platform/loop.ts";
import { experiments } from "../table.ts";
import { conduct } from "./conduct.ts";

/** Experiments that are read of each workspace. While some of them pause after a fault, the next one starts. */
const MOST_READ = 16;
const RETRY_CHECK_MS = 1_000;

/** Works until no experiment is left, or until those that are left have to wait after a fault of the server. */
export async function runExperiments(ctx: Ctx, loop: AbortSignal): Promise<void> {
  const signal = AbortSignal.any([loop, ctx.closing]); // what a closing server refuses stays due
  const { experiments: state } = ctx.state;
  const ended = new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
  try {
    while (!signal.aborted) {
      state.bell = Promise.withResolvers<void>();
      start(ctx, signal);
      if (state.running.size === 0) break;
      const pause = new AbortController();
      const retry = state.faults.size > 0 ? [ctx.clock.sleep(RETRY_CHECK_MS, pause.signal)] : [];
      const done = [...state.running.values()].map((each) => each.done);
      await Promise.race([ended, state.bell.promise, ...done, ...retry]);
      pause.abort();
    }
  } finally {
    const left = [...state.running.values()];
    for (const { stop } of left) stop.abort(new Error("the loop of experiments ends"));
    await Promise.all(left.map(({ done }) => done));
  }
}

const active = oldestOfEach(experiments, isNull(experiments.finishedAt));
const find = preparedRow(experiments, eq(experiments.id, sql.placeholder("id")));

function start(ctx: Ctx, signal: AbortSignal) {
  const { running, faults, permits } = ctx.state.experiments;
  for (const id of faults.keys()) if (find(ctx.db, { id })?.finishedAt !== null) faults.delete(id);
  const now = ctx.clock.steady();
  const ready = active(ctx.db)
    .all({ most: MOST_READ })
    .filter(({ id }) => !running.has(id) && (faults.get(id)?.notBefore ?? 0) <= now);
  permits.fillFrom(ready, ({ id }, release) => {
    const stop = new AbortController();
    const done = conduct(ctx, id, AbortSignal.any([signal, stop.signal]))
      .then(() => void faults.delete(id))
      .catch((error: unknown) => pauseAfter(ctx, id, error))
      .finally(() => {
        running.delete(id);
        release();
      });
    running.set(id, { stop, done });
  });
}

/** A fault of the server, such as a full disk. The experiment waits; those of other workspaces go on. */
function pauseAfter(ctx: Ctx, id: string, error: unknown) {
  const { faults } = ctx.state.experiments;
  const failures = (faults.get(id)?.failures ?? 0) + 1;
  const retryMs = nextDelay(failures);
  faults.set(id, { failures, notBefore: ctx.clock.steady() + retryMs });
  ctx.log.error("an experiment paused after a fault", { experiment: id, failures, retry_ms: retryMs, error });
}
