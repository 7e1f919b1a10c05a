/** Batches: their items, their results, and the file that holds the images until the batch ends. */
import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { and, asc, eq, gt, inArray, isNull } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { emit } from "../../../events/emit.ts";
import { transition } from "../../../events/lifecycle.ts";
import { serviceCodeOf } from "../../../http/answer/service_errors.ts";
import type { Once } from "../../../http/idempotency.ts";
import { AppError } from "../../../lib/errors.ts";
import { newId } from "../../../lib/ids.ts";
import { isoOrNull } from "../../../lib/schema.ts";
import { isoTime } from "../../../lib/time.ts";
import { type Db, type Tx, write } from "../../../platform/db/db.ts";
import { preparedInsert } from "../../../platform/db/row.ts";
import { limitWaiting } from "../../../platform/db/waiting_limit.ts";
import { writeStreamAtomic } from "../../../platform/files.ts";
import type { ModelName } from "../../../workers/protocol_detector.ts";
import { spaceMeter } from "../../data/storage_usage/service.ts";
import * as webhooks from "../../watching/webhooks/service.ts";
import { accountOf, charge, requireRoom } from "../accounts.ts";
import { decodeFile } from "../intake/files.ts";
import { machine, report } from "../machine.ts";
import { namedModels } from "../policy.ts";
import { type Batch, type CreateBatch, present, type ResultsQuery } from "../schema.ts";
import { type BatchRow, detectionBatches, detectionItems, detections, type ItemRow } from "../table.ts";

export const batchesDir = ({ config }: Pick<Ctx, "config">) => join(config.data_dir, "detection");
export const batchFile = (ctx: Pick<Ctx, "config">, id: string) => join(batchesDir(ctx), `${id}.images`);

const WRITE_BYTES = 1 << 20;

const insertBatch = preparedInsert(detectionBatches);
const insertItem = preparedInsert(detectionItems);

export async function create(ctx: Ctx, workspaceId: string, input: CreateBatch, once?: Once): Promise<Batch> {
  const before = once && write(ctx.db, (tx) => once.before(tx));
  if (before) return before as Batch; // what was kept below
  const named = namedModels(input.models ?? (input.model === undefined ? [] : [input.model]));
  const need = { requests: input.images.length, credits: input.images.length };
  requireRoom(ctx, workspaceId, need);
  mustHaveRoom(ctx, workspaceId);
  const id = newId("bat", ctx.clock.now());
  const items = itemsOf(id, input);
  const { detection } = ctx.state;
  detection.writing.add(id);
  try {
    await mkdir(batchesDir(ctx), { recursive: true, mode: 0o700 });
    using meter = spaceMeter(ctx);
    await writeStreamAtomic(batchFile(ctx, id), imagesOf(ctx, input, items), { meter });
    const answer = write(ctx.db, (tx) => {
      requireRoom(ctx, workspaceId, need);
      mustHaveRoom({ db: tx, config: ctx.config }, workspaceId);
      const batch = presentBatch(add(ctx, tx, { workspaceId, id, named, items, metadata: input.metadata }));
      once?.keep(tx, batch);
      return batch;
    });
    detection.bell.resolve();
    ctx.wake("detection.batches");
    return answer;
  } catch (error) {
    await rm(batchFile(ctx, id), { force: true });
    throw error;
  } finally {
    detection.writing.delete(id);
  }
}

/** 429 if too many batches of the workspace have not ended. */
const mustHaveRoom = (on: Pick<Ctx, "db" | "config">, workspaceId: string) =>
  limitWaiting(
    on,
    "detection_batches",
    detectionBatches,
    and(eq(detectionBatches.workspaceId, workspaceId), isNull(detectionBatches.finishedAt)),
  );

function itemsOf(batchId: string, { images }: CreateBatch): ItemRow[] {
  const names = new Set<string>();
  return images.map(({ id, url = null }, number) => {
    const name = id ?? String(number);
    if (names.has(name))
      throw new AppError(
        "schema",
        `images.${number}.id: ${JSON.stringify(name)} is used twice. Give each image an id of its own`,
      );
    names.add(name);
    const none = { detectionId: null, cached: false, errorCode: null, error: null, finishedAt: null };
    return { batchId, number, name, url, offset: 0, sizeBytes: 0, ...none };
  });
}

/** The images one after another, each at the offset that its item says. A bad image fails its item alone. */
async function* imagesOf(ctx: Ctx, { images }: CreateBatch, items: ItemRow[]): AsyncGenerator<Uint8Array> {
  let offset = 0;
  let waiting: Uint8Array[] = []; // one write for many small images
  let from = 0;
  for (const [number, { image }] of images.entries()) {
    const item = items[number] as ItemRow;
    if (image === undefined) continue;
    try {
      const bytes = decodeFile(ctx, image, `images.${number}.image`);
      Object.assign(item, { offset, sizeBytes: bytes.length });
      offset += bytes.length;
      waiting.push(bytes);
    } catch (error) {
      if (!(error instanceof AppError)) throw error;
      const finishedAt = ctx.clock.now();
      Object.assign(item, { errorCode: serviceCodeOf(error.code), error: error.message, finishedAt });
    }
    if (offset - from < WRITE_BYTES) continue;
    yield Buffer.concat(waiting);
    waiting = [];
    from = offset;
  }
  yield Buffer.concat(waiting);
}

type NewBatch = Pick<BatchRow, "workspaceId" | "id" | "metadata"> & { named: ModelName[]; items: readonly ItemRow[] };

function add(ctx: Ctx, tx: Tx, { workspaceId, id, named, items, metadata }: NewBatch): BatchRow {
  const now = ctx.clock.now();
  const failureCount = items.filter(({ finishedAt }) => finishedAt !== null).length;
  const { defaultThreshold, prior } = accountOf(ctx, workspaceId);
  const row = insertBatch(tx, {
    id,
    workspaceId,
    status: machine.initial,
    models: named,
    threshold: defaultThreshold,
    prior,
    total: items.length,
    successCount: 0,
    failureCount,
    createdAt: now,
    updatedAt: now,
    finishedAt: null,
    metadata,
  });
  for (const item of items) insertItem(tx, item);
  if (failureCount > 0) charge(ctx, tx, workspaceId, { requests: failureCount, credits: 0 });
  emit(tx, "detection_batch.created", { workspaceId, now }, report(row));
  return endIfDone(ctx, tx, row) ?? row;
}

/** Ends the batch in the commit of its last item, and notifies the webhook. */
export function endIfDone(ctx: Ctx, tx: Tx, row: BatchRow): BatchRow | undefined {
  if (row.successCount + row.failureCount < row.total) return undefined;
  const now = ctx.clock.now();
  const ended = transition(tx, machine, "complete", { id: row.id, now }, { finishedAt: now });
  if (ended) {
    const { status, total: totalImages, successCount, failureCount } = ended;
    const data = { jobId: row.id, status, totalImages, successCount, failureCount };
    webhooks.notifyService(ctx, tx, row.workspaceId, { event: "batch.completed", data });
  }
  return ended;
}

export function mustGet(ctx: Pick<Ctx, "db">, workspaceId: string, id: string): BatchRow {
  const row = ctx.db.select().from(detectionBatches).where(eq(detectionBatches.id, id)).get();
  if (row?.workspaceId !== workspaceId)
    throw new AppError("resource_not_found", `There is no batch ${id.slice(0, 80)}`);
  return row;
}

export const presentBatch = (row: BatchRow): Batch => ({
  jobId: row.id,
  status: row.status,
  totalImages: row.total,
  successCount: row.successCount,
  failureCount: row.failureCount,
  createdAt: isoTime(row.createdAt),
  finishedAt: isoOrNull(row.finishedAt),
  metadata: row.metadata,
});

/** Results in the order the images were sent, pending ones included. */
export function results(ctx: Ctx, workspaceId: string, id: string, { limit, after }: ResultsQuery) {
  const batch = mustGet(ctx, workspaceId, id);
  const { batchId, number, detectionId } = detectionItems;
  const rows = ctx.db
    .select()
    .from(detectionItems)
    .leftJoin(detections, eq(detections.id, detectionId))
    .where(and(eq(batchId, id), after === undefined ? undefined : gt(number, numberOf(ctx, id, after))))
    .orderBy(asc(number))
    .limit(limit + 1)
    .all();
  const shown = rows.slice(0, limit).map(({ detection_items: item, detections: row }) => ({
    id: item.name,
    status: itemStatus(batch, item),
    result: row && present(row, { threshold: batch.threshold, prior: batch.prior, cached: item.cached }),
    error: item.error,
    code: item.errorCode,
  }));
  return { jobId: id, results: shown, hasMore: rows.length > limit };
}

function itemStatus({ status }: BatchRow, { finishedAt, errorCode }: ItemRow) {
  if (finishedAt !== null) return errorCode === null ? ("success" as const) : ("error" as const);
  return status === "cancelled" ? ("cancelled" as const) : ("pending" as const);
}

function numberOf(ctx: Ctx, id: string, after: string): number {
  const { batchId, name, number } = detectionItems;
  const item = ctx.db
    .select({ number })
    .from(detectionItems)
    .where(and(eq(batchId, id), eq(name, after)))
    .get();
  if (!item) throw new AppError("invalid_cursor", `after: this batch has no result ${after.slice(0, 80)}`);
  return item.number;
}

/** Items under way are dropped; finished results stay. */
export function cancel(ctx: Ctx, workspaceId: string, id: string): BatchRow {
  return write(ctx.db, (tx) => {
    const row = mustGet(ctx, workspaceId, id);
    const now = ctx.clock.now();
    const ended = transition(tx, machine, "cancel", { id, now }, { finishedAt: now });
    if (ended) ctx.wake("detection.batches");
    else if (row.status !== "cancelled")
      throw new AppError("unsupported_state", `Batch ${id} is already ${row.status}`);
    return ended ?? row;
  });
}

/** For a workspace that is being deleted. */
export function cancelAll(ctx: Ctx, tx: Tx, workspaceId: string) {
  const now = ctx.clock.now();
  const { finishedAt, id } = detectionBatches;
  const isUnfinished = and(eq(detectionBatches.workspaceId, workspaceId), isNull(finishedAt));
  for (const row of tx.select({ id }).from(detectionBatches).where(isUnfinished).all())
    transition(tx, machine, "cancel", { id: row.id, now }, { finishedAt: now });
  ctx.wake("detection.batches");
}

/** The given batches that have not ended. */
export const unfinished = (db: Db, ids: readonly string[]): Set<string> =>
  new Set(
    db
      .select({ id: detectionBatches.id })
      .from(detectionBatches)
      .where(and(inArray(detectionBatches.id, [...ids]), isNull(detectionBatches.finishedAt)))
      .all()
      .map(({ id }) => id),
  );
