/** Datasets: append-only streams of rows with snapshots, and connected sources that are read when a job starts. */
import { and, eq, inArray, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { emit } from "../../../events/emit.ts";
import { type PageQuery, page } from "../../../http/answer/pagination.ts";
import { AppError } from "../../../lib/errors.ts";
import { isId, newId } from "../../../lib/ids.ts";
import type { Source } from "../../../lib/source.ts";
import { afterCommit, prepared, type Tx, write } from "../../../platform/db/db.ts";
import { preparedInsert, preparedRow } from "../../../platform/db/row.ts";
import { type CreateDataset, present, type UpdateDataset } from "./schema.ts";
import {
  type DatasetRow,
  datasetPins,
  datasetResolutions,
  datasetSnapshots,
  datasets,
  type ResolutionRow,
} from "./table.ts";

const byId = preparedRow(
  datasets,
  and(eq(datasets.id, sql.placeholder("id")), eq(datasets.workspaceId, sql.placeholder("workspaceId"))),
);
const anyById = preparedRow(datasets, eq(datasets.id, sql.placeholder("id")));
const insert = preparedInsert(datasets);

export const list = (ctx: Ctx, workspaceId: string, query: PageQuery) =>
  page(ctx.db, datasets, eq(datasets.workspaceId, workspaceId), query, (row) => present(row));

export const find = (ctx: Ctx, workspaceId: string, id: string): DatasetRow | undefined =>
  byId(ctx.db, { id, workspaceId });

/** Finds a dataset in any workspace. For background work whose workspace was checked before. */
export const current = (ctx: Ctx, id: string): DatasetRow | undefined => anyById(ctx.db, { id });

export function mustGet(ctx: Ctx, workspaceId: string, id: string, param = "id"): DatasetRow {
  const row = find(ctx, workspaceId, id);
  if (!row) throw new AppError("resource_not_found", `No dataset ${id.slice(0, 80)}`, { param });
  return row;
}

/** Names are not unique: at most two datasets are returned, so that the caller sees it. */
export const byName = (ctx: Ctx, workspaceId: string, name: string): DatasetRow[] =>
  ctx.db
    .select()
    .from(datasets)
    .where(and(eq(datasets.workspaceId, workspaceId), eq(datasets.name, name)))
    .limit(2)
    .all();

const readingOf = prepared((db) => {
  const { datasetId, status } = datasetResolutions;
  const isOfDataset = eq(datasetId, sql.placeholder("datasetId"));
  return db
    .select()
    .from(datasetResolutions)
    .where(and(isOfDataset, inArray(status, ["pending", "running"])))
    .prepare();
});

/** The resolution that reads the source of this dataset now. */
export const liveReading = (ctx: Pick<Ctx, "db">, datasetId: string): ResolutionRow | undefined =>
  readingOf(ctx.db).get({ datasetId });

/** Only a stream has rows that can be appended to and read. */
export function mustBeStream(row: DatasetRow): DatasetRow {
  if (row.source)
    throw new AppError(
      "dataset_not_a_stream",
      `Dataset ${row.id} is connected to ${row.sourceType} and has no rows of its own: read them with POST /v1/datasets/${row.id}/resolutions, then name a snapshot`,
      { param: "id" },
    );
  return row;
}

type New = Pick<DatasetRow, "workspaceId" | "name" | "sourceType" | "format" | "metadata"> &
  Partial<
    Pick<DatasetRow, "source" | "headRow" | "liveRows" | "bytes" | "autoSnapshotRows" | "contentSha256" | "detected">
  >;

export function add(tx: Tx, fields: New, now: number, id = newId("ds", now)): DatasetRow {
  const row = insert(tx, {
    source: null,
    headRow: 0,
    liveRows: 0,
    bytes: 0,
    autoSnapshotRows: null,
    contentSha256: null,
    detected: null,
    ...fields,
    id,
    snapshotCount: 0,
    snapshotHeadRow: 0,
    createdAt: now,
    updatedAt: now,
  });
  emit(tx, "dataset.created", { workspaceId: row.workspaceId, now }, present(row));
  return row;
}

export const addNow = (ctx: Ctx, fields: New, now: number, id: string): DatasetRow =>
  write(ctx.db, (tx) => add(tx, fields, now, id));

export function createStream(ctx: Ctx, workspaceId: string, body: CreateDataset): DatasetRow {
  const { name, format, auto_snapshot_rows: autoSnapshotRows, metadata } = body;
  const fields = { workspaceId, name, sourceType: "upload" as const, format, autoSnapshotRows, metadata };
  return write(ctx.db, (tx) => add(tx, fields, ctx.clock.now()));
}

export function createConnected(
  ctx: Ctx,
  workspaceId: string,
  input: { name: string; source: Source; metadata: Record<string, string> },
): DatasetRow {
  const { name, source, metadata } = input;
  const row = { workspaceId, name, sourceType: source.source_type, source, format: null, metadata };
  return write(ctx.db, (tx) => add(tx, row, ctx.clock.now()));
}

export function update(ctx: Ctx, workspaceId: string, id: string, body: UpdateDataset): DatasetRow {
  const before = mustGet(ctx, workspaceId, id);
  if (body.auto_snapshot_rows !== undefined && body.auto_snapshot_rows !== null) mustBeStream(before);
  const now = ctx.clock.now();
  const patch = {
    ...(body.name === undefined ? {} : { name: body.name }),
    ...(body.auto_snapshot_rows === undefined ? {} : { autoSnapshotRows: body.auto_snapshot_rows }),
    ...(body.metadata === undefined ? {} : { metadata: body.metadata }),
    updatedAt: now,
  };
  const row = write(ctx.db, (tx) => {
    const [changed] = tx.update(datasets).set(patch).where(eq(datasets.id, id)).returning().all();
    if (changed) emit(tx, "dataset.updated", { workspaceId, now }, present(changed));
    return changed;
  });
  ctx.wake("datasets.snapshots");
  return row ?? before;
}

/** The loop `datasets.sweep` deletes the row files afterwards. */
export function remove(ctx: Ctx, workspaceId: string, id: string): DatasetRow {
  const row = mustGet(ctx, workspaceId, id);
  const now = ctx.clock.now();
  write(ctx.db, (tx) => {
    const pin = tx.select().from(datasetPins).where(eq(datasetPins.datasetId, id)).get();
    if (pin)
      throw new AppError(
        "unsupported_state",
        `Dataset ${id} is in use by ${isId(pin.jobId, "exp") ? "experiment" : "job"} ${pin.jobId}: cancel it or wait for its end`,
        {
          param: "id",
        },
      );
    tx.delete(datasetSnapshots).where(eq(datasetSnapshots.datasetId, id)).run();
    tx.delete(datasetResolutions).where(eq(datasetResolutions.datasetId, id)).run();
    tx.delete(datasets).where(eq(datasets.id, id)).run();
    emit(tx, "dataset.deleted", { workspaceId, now }, present(row));
    afterCommit(tx, () => ctx.wake("datasets.sweep"));
  });
  return row;
}

/** For a deleted workspace: none of its jobs reads the datasets any more, so the pins go too. */
export function removeAll(ctx: Ctx, workspaceId: string) {
  const ids = ctx.db.select({ id: datasets.id }).from(datasets).where(eq(datasets.workspaceId, workspaceId)).all();
  for (const { id } of ids) {
    write(ctx.db, (tx) => void tx.delete(datasetPins).where(eq(datasetPins.datasetId, id)).run());
    remove(ctx, workspaceId, id);
  }
}
