/**
 * The loop `detection.batches`. The rows are the queue: an item is due until its result is written. One commit holds the
 * result, its cost and, for the last item, the end of the batch with its notification. Only this process knows what is
 * under way, so a crash at any line costs at most a repetition.
 */
import { open, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { and, asc, eq, isNull, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { transition } from "../../../events/lifecycle.ts";
import { serviceCodeOf } from "../../../http/answer/service_errors.ts";
import { AppError, type ErrorCode } from "../../../lib/errors.ts";
import { HOUR_MS } from "../../../lib/units.ts";
import { durable, prepared, write } from "../../../platform/db/db.ts";
import { oldestOfEach } from "../../../platform/db/oldest_of_each.ts";
import { cleanTemp, errorCode, readExactly, StorageError } from "../../../platform/files.ts";
import { charge } from "../accounts.ts";
import { fetchFile } from "../intake/files.ts";
import { machine } from "../machine.ts";
import { countFailed } from "../metrics.ts";
import { examine, type Finding, keep } from "../service.ts";
import { type BatchRow, detectionBatches, detectionItems, type ItemRow } from "../table.ts";
import { batchesDir, batchFile, endIfDone, unfinished } from "./batches.ts";

const TEMP_MS = HOUR_MS;
const PAUSE_MS = 1_000;

type Running = Map<string, { batchId: string; done: Promise<void> }>;

/** Works until nothing is due. */
export async function runBatches(ctx: Ctx, loop: AbortSignal): Promise<void> {
  const signal = AbortSignal.any([loop, ctx.closing]); // what a closing server refuses stays due
  await sweepFiles(ctx);
  const running: Running = new Map();
  const stop = new AbortController();
  const trouble: unknown[] = [];
  const stopping = AbortSignal.any([signal, stop.signal]);
  const ended = new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
  try {
    while (!signal.aborted && trouble.length === 0) {
      const { detection } = ctx.state;
      detection.bell = Promise.withResolvers<void>();
      fill(ctx, running, (error) => void trouble.push(error), stopping);
      if (running.size === 0) break;
      await Promise.race([ended, detection.bell.promise, ...[...running.values()].map(({ done }) => done)]);
    }
  } finally {
    stop.abort(new Error("the batch loop pauses"));
    await Promise.all([...running.values()].map(({ done }) => done));
  }
  if (trouble.length > 0) throw trouble[0];
  if (!signal.aborted) await sweepFiles(ctx);
}

function fill(ctx: Ctx, running: Running, fail: (error: unknown) => void, signal: AbortSignal) {
  const { items } = ctx.state.detection;
  // At most `permits` items run at once, so an idle item is among them.
  const due = Map.groupBy(oldest(ctx.db).all({ most: items.permits }), ({ workspaceId }) => workspaceId);
  items.fill(due.keys(), (workspaceId, release) => {
    const next = choose(ctx, due.get(workspaceId) ?? [], running);
    if (!next) return false;
    const { batch, item } = next;
    const key = `${batch.id} ${item.number}`;
    const done = work(ctx, batch, item, signal)
      .catch(fail)
      .finally(() => {
        running.delete(key);
        release();
      });
    running.set(key, { batchId: batch.id, done });
    return true;
  });
}

const oldest = oldestOfEach(detectionBatches, isNull(detectionBatches.finishedAt));

const dueItem = prepared((db) =>
  db
    .select()
    .from(detectionItems)
    .where(and(eq(detectionItems.batchId, sql.placeholder("batchId")), isNull(detectionItems.finishedAt)))
    .orderBy(asc(detectionItems.number))
    .limit(sql.placeholder("most"))
    .prepare(),
);

/** The next item of the oldest of these batches that has any. */
function choose(ctx: Ctx, batches: readonly BatchRow[], running: Running) {
  const busy = [...running.values()];
  for (const batch of batches) {
    const runningCount = busy.filter(({ batchId }) => batchId === batch.id).length;
    const due = dueItem(ctx.db).all({ batchId: batch.id, most: runningCount + 1 });
    const item = due.find(({ number }) => !running.has(`${batch.id} ${number}`));
    if (item) return { batch, item };
  }
  return undefined;
}

/** The detector has no room: the item stays due. */
const BUSY: readonly ErrorCode[] = ["no_capacity", "queue_full"];

/** Faults of the server: the item stays due, and the loop pauses. */
const SERVER_FAULTS: readonly ErrorCode[] = ["detector_unavailable", "storage_unavailable", "shutting_down"];

async function work(ctx: Ctx, batch: BatchRow, item: ItemRow, signal: AbortSignal): Promise<void> {
  if (batch.status === "queued")
    write(ctx.db, (tx) => void transition(tx, machine, "begin", { id: batch.id, now: ctx.clock.now() }));
  let outcome: Finding | AppError;
  try {
    const begunAt = performance.now();
    const bytes = item.url === null ? await readImage(ctx, item) : await fetchFile(ctx, item.url, signal);
    const subject = { bytes, named: batch.models, robustness: true, heatmap: false, begunAt, signal };
    outcome = await examine(ctx, batch.workspaceId, subject, () => {}); // the row of the item has reserved what it costs
  } catch (error) {
    if (signal.aborted) return;
    if (error instanceof StorageError) throw error;
    if (error instanceof AppError && BUSY.includes(error.code)) return ctx.clock.sleep(PAUSE_MS, signal);
    if (error instanceof AppError && SERVER_FAULTS.includes(error.code)) throw error;
    if (!(error instanceof AppError))
      ctx.log.error("an image of a batch could not be scored", { batch: batch.id, item: item.number, error });
    outcome = error instanceof AppError ? error : new AppError("internal", "Unexpected server error", { cause: error });
  }
  if (!signal.aborted) finish(ctx, item, outcome);
}

const imageGone = (cause?: unknown) =>
  new AppError("internal", "The image is no longer stored. Send it again", { cause });

async function readImage(ctx: Ctx, item: ItemRow): Promise<Uint8Array<ArrayBuffer>> {
  const path = batchFile(ctx, item.batchId);
  try {
    const file = await open(path, "r");
    try {
      return await readExactly(file, new Uint8Array(item.sizeBytes), item.offset, imageGone);
    } finally {
      await file.close();
    }
  } catch (error) {
    if (errorCode(error) === "ENOENT") throw imageGone(error);
    throw error instanceof AppError ? error : new StorageError(path, "read", error);
  }
}

/** Writes the result in one commit. A batch cancelled meanwhile and an item that is done stay as they are. */
function finish(ctx: Ctx, { batchId, number }: ItemRow, outcome: Finding | AppError) {
  const now = ctx.clock.now();
  write(ctx.db, (tx) => {
    const batch = tx.select().from(detectionBatches).where(eq(detectionBatches.id, batchId)).get();
    const one = and(eq(detectionItems.batchId, batchId), eq(detectionItems.number, number));
    const due = tx
      .select()
      .from(detectionItems)
      .where(and(one, isNull(detectionItems.finishedAt)))
      .get();
    if (!batch || batch.finishedAt !== null || !due) return;
    const failed = outcome instanceof AppError;
    const end = failed
      ? { errorCode: serviceCodeOf(outcome.code), error: outcome.message }
      : { detectionId: outcome.row.id, cached: outcome.cached };
    tx.update(detectionItems)
      .set({ ...end, finishedAt: now })
      .where(one)
      .run();
    const counts = failed ? { failureCount: batch.failureCount + 1 } : { successCount: batch.successCount + 1 };
    tx.update(detectionBatches)
      .set({ ...counts, updatedAt: now })
      .where(eq(detectionBatches.id, batchId))
      .run();
    if (failed) {
      countFailed(tx, batch.workspaceId, outcome);
      charge(ctx, tx, batch.workspaceId, { requests: 1, credits: 0 });
    } else keep(ctx, tx, outcome);
    endIfDone(ctx, tx, { ...batch, ...counts });
  });
}

/** Removes files whose batch has ended or was never created. */
async function sweepFiles(ctx: Ctx) {
  const dir = batchesDir(ctx);
  const names = await readdir(dir).catch((error: unknown) => {
    if (errorCode(error) === "ENOENT") return [];
    throw new StorageError(dir, "read", error);
  });
  if (names.length === 0) return;
  const ids = names.filter((name) => name.endsWith(".images")).map((name) => name.slice(0, -".images".length));
  await durable(ctx.db); // if the end of a batch were lost, its images would be needed again
  const wanted = unfinished(ctx.db, ids);
  const { writing } = ctx.state.detection;
  for (const id of ids) if (!wanted.has(id) && !writing.has(id)) await rm(join(dir, `${id}.images`), { force: true });
  if (names.some((name) => name.startsWith(".verk-tmp-"))) await cleanTemp(dir, TEMP_MS, ctx.clock.now());
}
