/**
 * The loop `experiments.run`. The rows are the queue: an item is due until its result is written. Only this process knows
 * what is under way, so a kill at any line costs at most the repetition of an item that has no result.
 */
import { asc, isNull } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { toStart } from "../policy.ts";
import { experiments } from "../table.ts";
import { conduct } from "./conduct.ts";

const MOST_AT_ONCE = 4;
const MOST_READ = 1_000;

/** Works until no experiment is left. */
export async function runExperiments(ctx: Ctx, signal: AbortSignal): Promise<void> {
  const { experiments: state } = ctx.state;
  const trouble: unknown[] = [];
  const ended = new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
  try {
    while (!signal.aborted && trouble.length === 0) {
      state.bell = Promise.withResolvers<void>();
      start(ctx, signal, (error) => void trouble.push(error));
      if (state.running.size === 0) break;
      await Promise.race([ended, state.bell.promise, ...[...state.running.values()].map(({ done }) => done)]);
    }
  } finally {
    const left = [...state.running.values()];
    for (const { stop } of left) stop.abort(new Error("the loop of experiments pauses"));
    await Promise.all(left.map(({ done }) => done));
  }
  if (trouble.length > 0) throw trouble[0];
}

function start(ctx: Ctx, signal: AbortSignal, fail: (error: unknown) => void) {
  const { running } = ctx.state.experiments;
  const { id, workspaceId, createdAt, finishedAt } = experiments;
  const active = ctx.db
    .select({ id, workspaceId })
    .from(experiments)
    .where(isNull(finishedAt))
    .orderBy(asc(createdAt), asc(id))
    .limit(MOST_READ)
    .all();
  for (const next of toStart(active, running, MOST_AT_ONCE)) {
    const stop = new AbortController();
    const done = conduct(ctx, next.id, AbortSignal.any([signal, stop.signal]))
      .catch(fail)
      .finally(() => running.delete(next.id));
    running.set(next.id, { workspaceId: next.workspaceId, stop, done });
  }
}
