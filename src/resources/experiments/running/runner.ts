/**
 * The loop `experiments.run`. The rows are the queue: an item is due until its result is written. Only this process knows
 * what is under way, so a kill at any line costs at most the repetition of an item that has no result.
 */
import { asc, isNull } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { nextDelay } from "../../../platform/loop.ts";
import { toStart } from "../policy.ts";
import { experiments } from "../table.ts";
import { conduct } from "./conduct.ts";

const MOST_AT_ONCE = 4;
const MOST_READ = 1_000;
const RETRY_CHECK_MS = 1_000;

/** Works until no experiment is left, or until those that are left have to wait after a fault of the server. */
export async function runExperiments(ctx: Ctx, signal: AbortSignal): Promise<void> {
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

function start(ctx: Ctx, signal: AbortSignal) {
  const { running, faults } = ctx.state.experiments;
  const { id, workspaceId, createdAt, finishedAt } = experiments;
  const active = ctx.db
    .select({ id, workspaceId })
    .from(experiments)
    .where(isNull(finishedAt))
    .orderBy(asc(createdAt), asc(id))
    .limit(MOST_READ)
    .all();
  for (const known of faults.keys()) if (!active.some((each) => each.id === known)) faults.delete(known);
  const ready = active.filter((each) => (faults.get(each.id)?.notBefore ?? 0) <= ctx.clock.steady());
  for (const next of toStart(ready, running, MOST_AT_ONCE)) {
    const stop = new AbortController();
    const done = conduct(ctx, next.id, AbortSignal.any([signal, stop.signal]))
      .then(() => void faults.delete(next.id))
      .catch((error: unknown) => pauseAfter(ctx, next.id, error))
      .finally(() => running.delete(next.id));
    running.set(next.id, { workspaceId: next.workspaceId, stop, done });
  }
}

/** A fault of the server, such as a full disk. The experiment waits; those of other workspaces go on. */
function pauseAfter(ctx: Ctx, id: string, error: unknown) {
  const { faults } = ctx.state.experiments;
  const failures = (faults.get(id)?.failures ?? 0) + 1;
  const retryMs = nextDelay(failures);
  faults.set(id, { failures, notBefore: ctx.clock.steady() + retryMs });
  ctx.log.error("an experiment paused after a fault", { experiment: id, failures, retry_ms: retryMs, error });
}
