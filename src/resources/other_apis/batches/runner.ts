/**
 * The loop `batches.run`. The rows are the queue: an item is due until its result is written, in one commit with the
 * counts of its batch. Only this process knows what is under way, so a kill at any line costs at most a repetition.
 */
import { and, asc, eq, isNull, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { prepared } from "../../../platform/db/db.ts";
import { oldestOfEach } from "../../../platform/db/oldest_of_each.ts";
import { untilIdle } from "../until_idle.ts";
import { end } from "./end.ts";
import { answerItem, check } from "./items.ts";
import { type BatchRow, inferenceBatches, inferenceBatchItems } from "./table.ts";

export function runBatches(ctx: Ctx, loop: AbortSignal): Promise<void> {
  const signal = AbortSignal.any([loop, ctx.closing]);
  return untilIdle(ctx.state.inferenceBatches, signal, (fail) => fill(ctx, signal, fail));
}

type Work = { key: string; run: (signal: AbortSignal) => Promise<void> };

function fill(ctx: Ctx, signal: AbortSignal, fail: (error: unknown) => void) {
  const { running, permits } = ctx.state.inferenceBatches;
  const due = Map.groupBy(
    unfinished(ctx.db).all({ most: ctx.config.queues.batches }),
    ({ workspaceId }) => workspaceId,
  );
  permits.fill(due.keys(), (workspaceId, release) => {
    const next = choose(ctx, due.get(workspaceId) ?? []);
    if (!next) return false;
    const { batch, work } = next;
    const key = `${batch.id} ${work.key}`;
    const stop = new AbortController();
    const done = work
      .run(AbortSignal.any([signal, stop.signal]))
      .catch(fail)
      .finally(() => {
        running.delete(key);
        release();
      });
    running.set(key, { batchId: batch.id, stop, done });
    return true;
  });
}

const unfinished = oldestOfEach(inferenceBatches, isNull(inferenceBatches.finishedAt));

const dueItems = prepared((db) =>
  db
    .select()
    .from(inferenceBatchItems)
    .where(and(eq(inferenceBatchItems.batchId, sql.placeholder("batchId")), isNull(inferenceBatchItems.finishedAt)))
    .orderBy(asc(inferenceBatchItems.number))
    .limit(sql.placeholder("most"))
    .prepare(),
);

/** The next work of the oldest of these batches that has any. */
function choose(ctx: Ctx, batches: readonly BatchRow[]): { batch: BatchRow; work: Work } | undefined {
  for (const batch of batches) {
    const work = workOf(ctx, batch);
    if (work) return { batch, work };
  }
  return undefined;
}

/** The next piece of work of a batch that is not under way. */
function workOf(ctx: Ctx, batch: BatchRow): Work | undefined {
  const { running } = ctx.state.inferenceBatches;
  const ownRuns = [...running.values()].filter(({ batchId }) => batchId === batch.id);
  const alone = (key: string, run: Work["run"]) => (ownRuns.length === 0 ? { key, run } : undefined);
  const isLate = ctx.clock.now() >= batch.expiresAt && batch.status !== "cancelling" && batch.status !== "finalizing";
  if (isLate) {
    for (const { stop } of ownRuns) stop.abort(new Error("the batch has expired"));
    return alone("end", () => end(ctx, batch, "expire"));
  }
  if (batch.status === "validating") return alone("check", (signal) => check(ctx, batch, signal));
  if (batch.status === "cancelling") return alone("end", () => end(ctx, batch, "stop"));
  if (batch.status === "finalizing") return alone("end", () => end(ctx, batch, "complete"));
  const due = dueItems(ctx.db).all({ batchId: batch.id, most: ownRuns.length + 1 });
  const item = due.find(({ number }) => !running.has(`${batch.id} ${number}`));
  if (item) return { key: String(item.number), run: (signal) => answerItem(ctx, batch, item, signal) };
  return alone("end", () => end(ctx, batch, "complete"));
}
