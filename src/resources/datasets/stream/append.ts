/**
 * Appending. Batches for one dataset wait in line and are taken together: their rows go into the dataset's file and to
 * the disk first; only then do the head that covers them and one event per batch enter the main database, in one
 * commit. A crash in between leaves rows beyond the head, which nobody sees and which the next append cuts off.
 */
import { eq } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { emit } from "../../../events/emit.ts";
import type { Once } from "../../../http/idempotency.ts";
import { AppError } from "../../../lib/errors.ts";
import { newId } from "../../../lib/ids.ts";
import { oncePer } from "../../../lib/once_per.ts";
import { openCommit, write } from "../../../platform/db/db.ts";
import { failpoint } from "../../../platform/failpoint.ts";
import { mustLeaveSpace } from "../../../platform/machine/disk.ts";
import type { Change, RowsFile } from "../../../platform/rows/file.ts";
import { mustHaveRoom } from "../../storage_usage/service.ts";
import type { Append } from "../schema.ts";
import * as datasets from "../service.ts";
import { type DatasetRow, datasets as table } from "../table.ts";
import type { Batch } from "./batch.ts";
import { type Held, hold, mustHold, pathOf } from "./files.ts";

type Waiting = { batch: Batch; once: Once | undefined; done: (answer: Append) => void; fail: (error: unknown) => void };
type Line = { waiting: Waiting[]; busy: boolean };
type Planned = { wait: Waiting; answer: Append; changes: Change[] };
/** The dataset as it will be once what is planned so far has landed. */
type Standing = Pick<DatasetRow, "headRow" | "liveRows" | "bytes" | "format" | "snapshotHeadRow">;

const MOST_BYTES = 64 << 20; // of one commit

const linesOf = oncePer((_db: Ctx["db"]) => new Map<string, Line>());

export function append(ctx: Ctx, id: string, batch: Batch, once?: Once): Promise<Append> {
  const lines = linesOf(ctx.db);
  const line = lines.get(id) ?? { waiting: [], busy: false };
  lines.set(id, line);
  return new Promise((done, fail) => {
    line.waiting.push({ batch, once, done, fail });
    if (!line.busy) void serve(ctx, id, line).finally(() => line.waiting.length === 0 && lines.delete(id));
  });
}

async function serve(ctx: Ctx, id: string, line: Line) {
  line.busy = true;
  await new Promise(setImmediate); // those who come in this turn go together
  while (line.waiting.length > 0) {
    const taken = take(line);
    try {
      await land(ctx, id, taken);
    } catch (error) {
      for (const { fail } of taken) fail(error); // those that were answered already do not hear it
    }
  }
  line.busy = false;
}

/** In order, up to a size. */
function take(line: Line): Waiting[] {
  const taken: Waiting[] = [];
  let bytes = 0;
  for (const next of line.waiting) {
    if (taken.length > 0 && bytes + next.batch.bytes > MOST_BYTES) break;
    bytes += next.batch.bytes;
    taken.push(next);
  }
  line.waiting.splice(0, taken.length);
  return taken;
}

async function land(ctx: Ctx, id: string, taken: readonly Waiting[]) {
  const row = datasets.current(ctx, id);
  if (!row) throw new AppError("resource_not_found", `No dataset ${id}`, { param: "id" });
  mustLeaveSpace(ctx);
  const path = pathOf(ctx, id);
  const held = row.headRow > 0 ? mustHold(ctx, path) : (hold(ctx, path, { create: true }) as Held); // created
  try {
    if (!held.opened.clean) held.file.cutBeyond(row.headRow);
    held.opened.clean = true;
    const { planned, standing } = plan(ctx, row, held.file, taken);
    if (planned.length === 0) return;
    held.opened.clean = false; // until the head covers it
    const now = ctx.clock.now();
    held.file.transact(() => {
      for (const { wait, answer, changes } of planned)
        held.file.append(answer.first_row_id, wait.batch.bodies, changes, now);
    });
    await held.file.flush();
    for (const { changes } of planned) for (const { target } of changes) held.hashing.touch(target);
    record(ctx, row, planned, standing, now);
    await openCommit(ctx.db); // where it is lost, so are the rows
    held.opened.clean = true;
    for (const { wait, answer } of planned) wait.done(answer);
    if (row.autoSnapshotRows !== null) ctx.wake("datasets.snapshots");
  } finally {
    held.release();
  }
}

function plan(ctx: Ctx, row: DatasetRow, file: RowsFile, taken: readonly Waiting[]) {
  const planned: Planned[] = [];
  const changed = new Map<number, Change>(); // of what is planned, by the row it changes and by its own
  let standing: Standing = row;
  for (const wait of taken) {
    try {
      const before = wait.once && write(ctx.db, (tx) => wait.once?.before(tx));
      if (before) {
        wait.done(before as Append);
        continue;
      }
      const next = planOne(
        row.id,
        standing,
        wait.batch,
        (target) => changed.get(target) ?? newest(file, target, standing),
      );
      mustFit(ctx, row, next.standing);
      for (const change of next.changes) changed.set(change.target, change).set(change.rowId, change);
      planned.push({
        wait,
        answer: { ...next.answer, batch_id: newId("batch", ctx.clock.now()) },
        changes: next.changes,
      });
      standing = next.standing;
    } catch (error) {
      wait.fail(error); // its own fault: the others go on
    }
  }
  return { planned, standing };
}

/** The dataset as it will be, within the quota of its workspace. */
const mustFit = (ctx: Ctx, { workspaceId, bytes }: DatasetRow, { bytes: after }: Standing) =>
  mustHaveRoom(ctx, { workspaceId, kind: "datasets" }, { bytes: after - bytes, param: "/rows" });

const newest = (file: RowsFile, target: number, { headRow }: Standing) =>
  file.changesOf(target, target, headRow).get(target) ?? file.changesBy(target, target).get(target);

/** What one batch does to the stream. Throws when it does not fit; then nothing of it happens. */
function planOne(
  datasetId: string,
  standing: Standing,
  batch: Batch,
  changeOf: (rowId: number) => Change | undefined,
): { answer: Omit<Append, "batch_id">; changes: Change[]; standing: Standing } {
  const { headRow, snapshotHeadRow } = standing;
  if (batch.expectedHead !== undefined && batch.expectedHead !== headRow)
    throw new AppError("head_moved", `The head is row ${headRow}, not ${batch.expectedHead}: read what came since`, {
      param: "/expected_head_row",
    });
  if (standing.format !== null && batch.format !== undefined && batch.format !== standing.format)
    throw new AppError("schema", `The rows have the format ${batch.format}, the dataset ${standing.format}`, {
      param: "/rows",
    });
  const own = new Map<number, Change>();
  const changes = batch.changes.map(({ index, op, target: named, param }) => {
    const target = rootOf(named, headRow, (id) => own.get(id) ?? changeOf(id), param);
    const change: Change = { rowId: headRow + 1 + index, target, op };
    own.set(target, change);
    return change;
  });
  const count = (op: string) => changes.filter((change) => change.op === op).length;
  const [superseded, tombstoned] = [count("supersede"), count("tombstone")];
  const appended = batch.rows - superseded - tombstoned;
  const head = headRow + batch.rows;
  return {
    changes,
    standing: {
      ...standing,
      headRow: head,
      liveRows: standing.liveRows + appended - tombstoned,
      bytes: standing.bytes + batch.bytes,
      format: standing.format ?? batch.format ?? null,
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

/** A row is named by the entry that appended it, or by one that superseded it. */
function rootOf(named: number, head: number, changeOf: (id: number) => Change | undefined, param: string): number {
  if (named > head) throw new AppError("schema", `There is no row ${named}: the newest is ${head}`, { param });
  const said = changeOf(named);
  const root = said?.rowId === named ? said.target : named;
  const last = root === named ? said : changeOf(root);
  if (said?.rowId === named && said.op === "tombstone")
    throw new AppError("schema", `Entry ${named} is a tombstone, not a row`, { param });
  if (last?.op === "tombstone")
    throw new AppError("schema", `Row ${root} is gone: entry ${last.rowId} removed it`, { param });
  return root;
}

function record(ctx: Ctx, row: DatasetRow, planned: readonly Planned[], standing: Standing, now: number) {
  failpoint("datasets.before_head");
  const { headRow, liveRows, bytes, format } = standing;
  const { id, workspaceId } = row;
  write(ctx.db, (tx) => {
    mustFit(ctx, row, standing); // other datasets may have grown meanwhile
    const patch = { headRow, liveRows, bytes, format, updatedAt: now };
    const [changed] = tx.update(table).set(patch).where(eq(table.id, id)).returning().all();
    if (!changed) throw new AppError("resource_not_found", `No dataset ${id}`, { param: "id" });
    for (const { wait, answer } of planned) {
      const { batch_id, first_row_id, last_row_id, head_row } = answer;
      const ids = { id, name: changed.name, batch_id, first_row_id, last_row_id };
      const data = { object: "dataset" as const, ...ids, count: wait.batch.rows, head_row };
      emit(tx, "dataset.rows_appended", { workspaceId, now }, data);
      wait.once?.keep(tx, answer);
    }
  });
}
