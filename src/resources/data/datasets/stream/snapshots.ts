/** Snapshots. A snapshot of a stream is a head row and a hash, never a copy of the rows. */
import { and, desc, eq, gte, isNotNull, lt, sql } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { emit } from "../../../../events/emit.ts";
import { invalidCursor } from "../../../../http/answer/cursor.ts";
import type { PageQuery } from "../../../../http/answer/pagination.ts";
import type { Once } from "../../../../http/idempotency.ts";
import { AppError } from "../../../../lib/errors.ts";
import { isId } from "../../../../lib/ids.ts";
import { takingTurns } from "../../../../lib/turns.ts";
import { openCommit, prepared, type Tx, write } from "../../../../platform/db/db.ts";
import { failpoint } from "../../../../platform/failpoint.ts";
import type { Digest } from "../../../../platform/rows/hash.ts";
import { presentSnapshot, type Snapshot, snapshotNumber } from "../schema.ts";
import * as datasets from "../service.ts";
import {
  type DatasetRow,
  datasetPins,
  datasetSnapshots,
  type SnapshotRow,
  type Trigger,
  datasets as table,
} from "../table.ts";
import { mustHold, pathOf } from "./files.ts";

export type Cut = { trigger: Trigger; jobId?: string | null; note?: string | null };
type CutOptions = Cut & { once?: Once | undefined };
type CutResult = { snapshot: Snapshot; isNew: boolean };

const EMPTY: Digest = { rows: 0, bytes: 0, sha256: new Bun.CryptoHasher("sha256").digest("hex") };

export const newest = (ctx: Ctx, datasetId: string): SnapshotRow | undefined =>
  ctx.db
    .select()
    .from(datasetSnapshots)
    .where(eq(datasetSnapshots.datasetId, datasetId))
    .orderBy(desc(datasetSnapshots.number))
    .limit(1)
    .get();

/** Finds a snapshot by an id such as `@snap-3`, or the newest one by `@latest`. */
export function named(ctx: Ctx, row: DatasetRow, id: string): SnapshotRow | undefined {
  if (id === "@latest" || id === "latest") return newest(ctx, row.id);
  const number = snapshotNumber(id);
  return number === undefined
    ? undefined
    : ctx.db
        .select()
        .from(datasetSnapshots)
        .where(and(eq(datasetSnapshots.datasetId, row.id), eq(datasetSnapshots.number, number)))
        .get();
}

export function mustGet(ctx: Ctx, row: DatasetRow, id: string, param = "snapshot"): SnapshotRow {
  const snapshot = named(ctx, row, id);
  if (!snapshot)
    throw new AppError("resource_not_found", `Dataset ${row.id} has no snapshot ${id.slice(0, 40)}`, { param });
  return snapshot;
}

export function list(ctx: Ctx, row: DatasetRow, { limit, after }: PageQuery) {
  const below = after === undefined ? undefined : lt(datasetSnapshots.number, cursorOf(after));
  const rows = ctx.db
    .select()
    .from(datasetSnapshots)
    .where(and(eq(datasetSnapshots.datasetId, row.id), below))
    .orderBy(desc(datasetSnapshots.number))
    .limit(limit + 1)
    .all();
  return { object: "list" as const, data: rows.slice(0, limit).map(presentSnapshot), has_more: rows.length > limit };
}

function cursorOf(after: string): number {
  const number = /^@snap-([1-9]\d{0,8})$/.exec(after)?.[1];
  if (number === undefined) throw invalidCursor(after, "a snapshot id such as @snap-3");
  return Number(number);
}

/** Cuts a snapshot. If no row came since the newest snapshot, returns that one. */
export async function cut(ctx: Ctx, id: string, how: CutOptions): Promise<CutResult> {
  const release = await ctx.state.datasets.cuts.acquire({ workspaceId: id });
  try {
    return await cutNow(ctx, id, how);
  } finally {
    release?.();
  }
}

async function cutNow(ctx: Ctx, id: string, { once, ...how }: CutOptions): Promise<CutResult> {
  await openCommit(ctx.db)?.catch(() => {}); // The open commit may fail, and a new head in it is lost then.
  const row = datasets.current(ctx, id);
  if (!row) throw new AppError("resource_not_found", `No dataset ${id}`, { param: "id" });
  const before = once && write(ctx.db, (tx) => once.before(tx));
  if (before) return { snapshot: before as Snapshot, isNew: true };
  const last = newest(ctx, id);
  if (last && last.headRow === row.headRow) return { snapshot: presentSnapshot(last), isNew: false };
  const digest = await digestOf(ctx, row);
  failpoint("datasets.before_snapshot");
  const snapshot = write(ctx.db, (tx) => {
    const shown = presentSnapshot(record(tx, ctx, id, { ...how, headRow: row.headRow, digest }));
    once?.keep(tx, shown);
    return shown;
  });
  return { snapshot, isNew: true };
}

async function digestOf(ctx: Ctx, row: DatasetRow): Promise<Digest> {
  if (row.headRow === 0) return EMPTY;
  const rows = mustHold(ctx, pathOf(ctx, row.id));
  try {
    return await rows.hashing.digest(row.headRow, ctx.closing);
  } finally {
    rows.release();
  }
}

/** Inserts the snapshot in the transaction of the caller. */
export function record(tx: Tx, ctx: Ctx, id: string, snapshot: Cut & { headRow: number; digest: Digest }): SnapshotRow {
  const now = ctx.clock.now();
  const [dataset] = tx
    .update(table)
    .set({ snapshotCount: sql`${table.snapshotCount} + 1`, snapshotHeadRow: snapshot.headRow, updatedAt: now })
    .where(eq(table.id, id))
    .returning()
    .all();
  if (!dataset) throw new AppError("resource_not_found", `No dataset ${id}`, { param: "id" });
  const row: SnapshotRow = {
    datasetId: id,
    number: dataset.snapshotCount,
    headRow: snapshot.headRow,
    rowCount: snapshot.digest.rows,
    bytes: snapshot.digest.bytes,
    sha256: snapshot.digest.sha256,
    trigger: snapshot.trigger,
    jobId: snapshot.jobId ?? null,
    note: snapshot.note ?? null,
    createdAt: now,
  };
  tx.insert(datasetSnapshots).values(row).run();
  emit(tx, "dataset.snapshot_created", { workspaceId: dataset.workspaceId, now }, presentSnapshot(row));
  return row;
}

const dueDatasets = prepared((db) => {
  const { id, autoSnapshotRows, headRow, snapshotHeadRow } = table;
  const isDue = gte(sql`${headRow} - ${snapshotHeadRow}`, autoSnapshotRows);
  return db
    .select({ id })
    .from(table)
    .where(and(isNotNull(autoSnapshotRows), isDue))
    .prepare();
});

/** The loop `datasets.snapshots`: cuts snapshots of datasets that reached their `auto_snapshot_rows`. */
export async function cutDue(ctx: Ctx, signal?: AbortSignal) {
  for (const { id } of dueDatasets(ctx.db).all()) {
    if (signal?.aborted) return;
    await cut(ctx, id, { trigger: "auto" }).catch((error) => {
      if (error instanceof AppError && error.code === "resource_not_found") return; // deleted meanwhile
      ctx.log.error("cutting an automatic snapshot failed", { dataset: id, error }); // The other datasets go on.
    });
  }
}

export type Pinned = { dataset: DatasetRow; snapshot: SnapshotRow };

/**
 * Pins the snapshot that a job names: `ds_x@snap-3`, or the newest by `ds_x` or `ds_x@latest`. The last two cut a
 * snapshot if rows came since. Until `unpin` the dataset cannot be deleted.
 */
export async function pin(ctx: Ctx, workspaceId: string, reference: string, jobId: string): Promise<Pinned> {
  const [id = "", name = "latest"] = reference.split("@");
  const dataset = datasets.mustGet(ctx, workspaceId, id, "/dataset");
  const snapshot =
    name !== "latest" || dataset.source
      ? mustGet(ctx, dataset, `@${name}`, "/dataset")
      : mustGet(ctx, dataset, (await cut(ctx, id, { trigger: "job_pin", jobId })).snapshot.id, "/dataset");
  const { number } = snapshot;
  write(ctx.db, (tx) => {
    if (!datasets.current(ctx, id)) throw new AppError("resource_not_found", `No dataset ${id}`, { param: "/dataset" });
    tx.insert(datasetPins)
      .values({ jobId, datasetId: id, number, createdAt: ctx.clock.now() })
      .onConflictDoUpdate({ target: [datasetPins.jobId, datasetPins.datasetId], set: { number } })
      .run();
  });
  return { dataset, snapshot };
}

/** Runs in the transaction that ends the job. */
export const unpin = (tx: Tx, jobId: string) => void tx.delete(datasetPins).where(eq(datasetPins.jobId, jobId)).run();

/** Removes pins of one kind without an owner: the process was killed between the pin and the insert of the job. */
export async function unpinLost(ctx: Ctx, kind: "job" | "exp", isLive: (id: string) => boolean) {
  const pins = ctx.db.select({ jobId: datasetPins.jobId }).from(datasetPins).all();
  const turn = takingTurns();
  for (const { jobId } of pins) {
    await turn();
    if (isId(jobId, kind) && !isLive(jobId)) write(ctx.db, (tx) => unpin(tx, jobId));
  }
}
