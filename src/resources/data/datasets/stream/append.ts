/**
 * Appends. Batches for one dataset queue up and are written together. Their rows are flushed to the dataset's row file
 * first. Then one commit of the main database moves the head over them and emits one event per batch. A crash in
 * between leaves rows beyond the head. These are invisible, and the next append cuts them off.
 */
import { eq } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { emit } from "../../../../events/emit.ts";
import type { Once } from "../../../../http/idempotency.ts";
import { AppError } from "../../../../lib/errors.ts";
import { newId } from "../../../../lib/ids.ts";
import type { Row } from "../../../../lib/rows/format.ts";
import { openCommit, write } from "../../../../platform/db/db.ts";
import { failpoint } from "../../../../platform/failpoint.ts";
import type { Change, RowsFile } from "../../../../platform/rows/file.ts";
import type { OpenMeter } from "../../../../platform/storage/meter.ts";
import { meterOf } from "../../storage_usage/service.ts";
import { mustFitRows } from "../row_quota.ts";
import type { Append } from "../schema.ts";
import * as datasets from "../service.ts";
import { type DatasetRow, datasets as table } from "../table.ts";
import { type Batch, batchOf } from "./batch.ts";
import { hold, missing, mustHold, pathOf } from "./files.ts";
import type { RowsHandle } from "./open_rows.ts";

type Pending = { batch: Batch; once: Once | undefined; done: (answer: Append) => void; fail: (error: unknown) => void };
export type AppendQueue = { pending: Pending[]; busy: boolean };
type Planned = { pending: Pending; answer: Append; changes: Change[] };
/** The dataset as it will be after the batches that are planned so far. */
type StreamState = Pick<DatasetRow, "headRow" | "liveRows" | "bytes" | "format" | "snapshotHeadRow">;

const MOST_BYTES = 64 << 20; // of one commit

/** Appends rows that this server made. `once` runs in the commit of the append. */
export async function appendRows(
  ctx: Ctx,
  { workspaceId, datasetId }: { workspaceId: string; datasetId: string | null },
  rows: readonly Row[],
  once?: Once,
): Promise<Append> {
  const dataset = datasets.mustBeStream(datasets.mustGet(ctx, workspaceId, datasetId ?? "", "/dataset_id"));
  return append(ctx, dataset.id, await batchOf(ctx, rows, dataset.format), once);
}

export function append(ctx: Ctx, id: string, batch: Batch, once?: Once): Promise<Append> {
  const { appends: queues } = ctx.state.datasets;
  const queue = queues.get(id) ?? { pending: [], busy: false };
  queues.set(id, queue);
  return new Promise((done, fail) => {
    queue.pending.push({ batch, once, done, fail });
    if (!queue.busy) void drain(ctx, id, queue).finally(() => queue.pending.length === 0 && queues.delete(id));
  });
}

async function drain(ctx: Ctx, id: string, queue: AppendQueue) {
  queue.busy = true;
  await new Promise(setImmediate); // Batches of the same event loop turn are written together.
  while (queue.pending.length > 0) {
    const taken = take(queue);
    try {
      await writeTogether(ctx, id, taken);
    } catch (error) {
      for (const { fail } of taken) fail(error); // Has no effect on batches that were answered before.
    }
  }
  queue.busy = false;
}

/** Takes batches in order of arrival, up to `MOST_BYTES`. */
function take(queue: AppendQueue): Pending[] {
  const taken: Pending[] = [];
  let bytes = 0;
  for (const next of queue.pending) {
    if (taken.length > 0 && bytes + next.batch.bytes > MOST_BYTES) break;
    bytes += next.batch.bytes;
    taken.push(next);
  }
  queue.pending.splice(0, taken.length);
  return taken;
}

async function writeTogether(ctx: Ctx, id: string, taken: readonly Pending[]) {
  const row = datasets.current(ctx, id);
  if (!row) throw new AppError("resource_not_found", `No dataset ${id}`, { param: "id" });
  using meter = meterOf(ctx, { workspaceId: row.workspaceId, kind: "datasets" }, { param: "/rows" });
  const path = pathOf(ctx, id);
  if (!ctx.state.datasets.openRows.closeReplaced(path)) throw missing(path);
  const rows = row.headRow > 0 ? mustHold(ctx, path) : (hold(ctx, path, { create: true }) as RowsHandle);
  try {
    if (!rows.opened.clean) {
      if (rows.file.lastRow() < row.headRow) throw missing(path); // An older file was restored, or its log is gone.
      rows.file.cutBeyond(row.headRow);
    }
    rows.opened.clean = true;
    const { planned, state } = plan(ctx, row, rows.file, { taken, meter });
    if (planned.length === 0) return;
    rows.opened.clean = false; // until the head covers the new rows
    const now = ctx.clock.now();
    rows.file.transact(() => {
      for (const { pending, answer, changes } of planned)
        rows.file.append(answer.first_row_id, pending.batch.bodies, changes, now);
    });
    await rows.file.flush();
    if (!rows.file.isInPlace()) throw missing(path); // An acknowledged row must be in the file that a restart opens.
    for (const { changes } of planned) for (const { target } of changes) rows.hashing.touch(target);
    record(ctx, row, { planned, state, meter }, now);
    await openCommit(ctx.db); // Rejects if the commit is lost; the rows are cut off then.
    rows.opened.clean = true;
    for (const { pending, answer } of planned) pending.done(answer);
    if (row.autoSnapshotRows !== null) ctx.wake("datasets.snapshots");
  } finally {
    rows.release();
  }
}

type Appending = { taken: readonly Pending[]; meter: OpenMeter };

function plan(ctx: Ctx, row: DatasetRow, file: RowsFile, { taken, meter }: Appending) {
  const planned: Planned[] = [];
  const changed = new Map<number, Change>(); // planned changes, by the id of the changed row and by their own id
  let state: StreamState = row;
  for (const pending of taken) {
    try {
      const before = pending.once && write(ctx.db, (tx) => pending.once?.before(tx));
      if (before) {
        pending.done(before as Append);
        continue;
      }
      const next = planOne(
        row.id,
        state,
        pending.batch,
        (target) => changed.get(target) ?? newest(file, target, state),
      );
      mustFitRows(ctx, { workspaceId: row.workspaceId, rows: next.state.liveRows - row.liveRows, param: "/rows" });
      meter.take(next.state.bytes - state.bytes);
      for (const change of next.changes) changed.set(change.target, change).set(change.rowId, change);
      planned.push({
        pending,
        answer: { ...next.answer, batch_id: newId("batch", ctx.clock.now()) },
        changes: next.changes,
      });
      state = next.state;
    } catch (error) {
      pending.fail(error); // A bad batch does not stop the others.
    }
  }
  return { planned, state };
}

const newest = (file: RowsFile, target: number, { headRow }: StreamState) =>
  file.changesOf(target, target, headRow).get(target) ?? file.changesBy(target, target).get(target);

/** Plans one batch. Throws if the batch does not fit the stream; it then has no effect. */
function planOne(
  datasetId: string,
  state: StreamState,
  batch: Batch,
  changeOf: (rowId: number) => Change | undefined,
): { answer: Omit<Append, "batch_id">; changes: Change[]; state: StreamState } {
  const { headRow, snapshotHeadRow } = state;
  if (batch.expectedHead !== undefined && batch.expectedHead !== headRow)
    throw new AppError(
      "head_moved",
      `expected_head_row is ${batch.expectedHead}, but the head is row ${headRow}: read the new rows and try again`,
      { param: "/expected_head_row" },
    );
  if (state.format !== null && batch.format !== undefined && batch.format !== state.format)
    throw new AppError("schema", `rows: have the format ${batch.format}, but the dataset has ${state.format}`, {
      param: "/rows",
    });
  const planned = new Map<number, Change>();
  const changes = batch.changes.map(({ index, op, target: named, param }) => {
    const target = rootOf(named, headRow, (id) => planned.get(id) ?? changeOf(id), param);
    const change: Change = { rowId: headRow + 1 + index, target, op };
    planned.set(target, change);
    return change;
  });
  const count = (op: string) => changes.filter((change) => change.op === op).length;
  const [superseded, tombstoned] = [count("supersede"), count("tombstone")];
  const appended = batch.rows - superseded - tombstoned;
  const head = headRow + batch.rows;
  return {
    changes,
    state: {
      ...state,
      headRow: head,
      liveRows: state.liveRows + appended - tombstoned,
      bytes: state.bytes + batch.bytes,
      format: state.format ?? batch.format ?? null,
    },
    answer: {
      object: "dataset.append",
      dataset_id: datasetId,
      first_row_id: headRow + 1,
      last_row_id: head,
      appended,
      superseded,
      tombstoned,
      head_row: head,
      unsnapshotted_rows: head - snapshotHeadRow,
    },
  };
}

/** Finds the entry that appended a row. `_row_id` may also name an entry that superseded the row. */
function rootOf(named: number, head: number, changeOf: (id: number) => Change | undefined, param: string): number {
  if (named > head)
    throw new AppError("schema", `_row_id: there is no row ${named}: the newest row is ${head}`, { param });
  const change = changeOf(named);
  const root = change?.rowId === named ? change.target : named;
  const last = root === named ? change : changeOf(root);
  if (change?.rowId === named && change.op === "tombstone")
    throw new AppError("schema", `_row_id: entry ${named} is a tombstone, not a row`, { param });
  if (last?.op === "tombstone")
    throw new AppError("schema", `_row_id: row ${root} was removed by entry ${last.rowId}`, { param });
  return root;
}

type Recorded = { planned: readonly Planned[]; state: StreamState; meter: OpenMeter };

function record(ctx: Ctx, row: DatasetRow, { planned, state, meter }: Recorded, now: number) {
  failpoint("datasets.before_head");
  const { headRow, liveRows, bytes, format } = state;
  const { id, workspaceId } = row;
  write(ctx.db, (tx) => {
    mustFitRows(ctx, { workspaceId, rows: liveRows - row.liveRows, param: "/rows" }); // Other datasets may have grown.
    meter.keep(bytes - row.bytes);
    const patch = { headRow, liveRows, bytes, format, contentSha256: null, updatedAt: now };
    const [changed] = tx.update(table).set(patch).where(eq(table.id, id)).returning().all();
    if (!changed) throw new AppError("resource_not_found", `No dataset ${id}`, { param: "id" });
    for (const { pending, answer } of planned) {
      const { batch_id, first_row_id, last_row_id, head_row } = answer;
      const ids = { id, name: changed.name, batch_id, first_row_id, last_row_id };
      const data = { object: "dataset" as const, ...ids, count: pending.batch.rows, head_row };
      emit(tx, "dataset.rows_appended", { workspaceId, now }, data);
      pending.once?.keep(tx, answer);
    }
  });
}
