/**
 * Resolutions: a connected source is read into a snapshot of its own. The credentials are kept in memory only. A
 * restart therefore fails a running resolution, but keeps the rows it has read. The next resolution continues there.
 */
import { existsSync } from "node:fs";
import { and, eq, inArray } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { emit } from "../../../events/emit.ts";
import { transition } from "../../../events/lifecycle.ts";
import { type PageQuery, page } from "../../../http/answer/pagination.ts";
import { AppError } from "../../../lib/errors.ts";
import { newId } from "../../../lib/ids.ts";
import type { Format } from "../../../lib/rows/format.ts";
import type { Credentials } from "../../../lib/source.ts";
import { durable, write } from "../../../platform/db/db.ts";
import { renameDurably } from "../../../platform/files.ts";
import { lacksSpace } from "../../../platform/machine/disk.ts";
import { lacksRoom, mustBeOpen } from "../../storage_usage/service.ts";
import { machine } from "../machine.ts";
import { presentResolution } from "../schema.ts";
import * as datasets from "../service.ts";
import { discardPart, partPath, pathOf } from "../stream/files.ts";
import * as snapshots from "../stream/snapshots.ts";
import {
  type DatasetRow,
  datasets as datasetTable,
  type ResolutionRow,
  datasetResolutions as table,
} from "../table.ts";
import { type Outcome, type Progress, runTask } from "./connector.ts";

const RECORD_MS = 1_000;
const EVENT_MS = 10_000;
const live = inArray(table.status, ["pending", "running"]);

export type RunningResolution = { datasetId: string; abort: AbortController; ended: Promise<ResolutionRow> };

export type ReadOptions = { credentials: Credentials; jobId?: string | null };

/** Begins a resolution, or returns the one that is running. */
export function begin(ctx: Ctx, dataset: DatasetRow, { credentials, jobId = null }: ReadOptions): ResolutionRow {
  if (!dataset.source)
    throw new AppError("unsupported_state", `Dataset ${dataset.id} is not connected to a source: it needs no reading`, {
      param: "id",
    });
  const current = ctx.db
    .select()
    .from(table)
    .where(and(eq(table.datasetId, dataset.id), live))
    .get();
  if (current) return current;
  mustBeOpen(ctx, { workspaceId: dataset.workspaceId, kind: "datasets" });
  const now = ctx.clock.now();
  const row: ResolutionRow = {
    id: newId("dsr", now),
    workspaceId: dataset.workspaceId,
    datasetId: dataset.id,
    status: machine.initial,
    jobId,
    rows: 0,
    bytes: 0,
    totalRows: null,
    snapshotNumber: null,
    error: null,
    createdAt: now,
    updatedAt: now,
    finishedAt: null,
  };
  write(ctx.db, (tx) => {
    tx.insert(table).values(row).run();
    emit(tx, "dataset_resolution.created", { workspaceId: row.workspaceId, now }, presentResolution(row));
  });
  const abort = new AbortController();
  const running = ctx.state.datasets.resolutions;
  const ended = run(ctx, row, credentials, abort).finally(() => running.delete(row.id));
  ended.catch((error) => {
    if (!(error instanceof AppError)) ctx.log.error("reading a source failed", { resolution: row.id, error });
  });
  running.set(row.id, { datasetId: dataset.id, abort, ended });
  return row;
}

async function run(ctx: Ctx, resolution: ResolutionRow, credentials: Credentials, abort: AbortController) {
  const { id, workspaceId, datasetId } = resolution;
  const signal = AbortSignal.any([abort.signal, ctx.closing]);
  const report = reporter(ctx, id);
  let full: string | undefined;
  const onProgress = (progress: Progress) => {
    report(progress);
    full ??= lacksStorage(ctx, resolution, progress.bytes);
    if (full !== undefined) abort.abort();
  };
  await durable(ctx.db);
  write(ctx.db, (tx) => transition(tx, machine, "start", { id, now: ctx.clock.now() }));
  const dataset = datasets.current(ctx, datasetId);
  const path = partPath(ctx, datasetId);
  const outcome: Outcome = dataset?.source
    ? await runTask(
        ctx,
        { workspaceId, signal },
        { type: "read", path },
        { source: dataset.source, credentials },
        onProgress,
      )
    : { type: "refused", code: "cancelled", message: "The dataset was deleted", param: null };
  // The row stays live: the next start fails it.
  if (ctx.closing.aborted) throw new AppError("shutting_down", "The server is shutting down");
  if (outcome.type === "read") full ??= lacksStorage(ctx, resolution, outcome.bytes);
  if (full !== undefined) {
    await discardPart(ctx, datasetId);
    return settle(ctx, id, "fail", { code: "quota_exceeded", message: full, param: null });
  }
  if (outcome.type === "read") return keep(ctx, id, datasetId, outcome);
  const refusal = outcome.type === "refused" ? outcome : undefined;
  // Only after an interruption can the next resolution continue with the rows read so far.
  if (refusal?.code !== "broken" && refusal?.code !== "unreachable") await discardPart(ctx, datasetId);
  return settle(ctx, id, refusal?.code === "cancelled" ? "cancel" : "fail", {
    code: refusal?.code ?? "broken",
    message: refusal?.message ?? "The source did not answer",
    param: refusal?.param ?? null,
  });
}

/** Returns the reason why this many bytes cannot be stored. */
function lacksStorage(ctx: Ctx, { workspaceId }: ResolutionRow, bytes: number): string | undefined {
  const why = lacksRoom(ctx, { workspaceId, kind: "datasets" }, bytes) ?? lacksSpace(ctx);
  return why && `The rows of the source cannot be stored: ${why}`;
}

/** Records progress at most once a second, and emits it every ten seconds. */
export function reporter(ctx: Ctx, id: string, begun = ctx.clock.now()) {
  let recordedAt = 0;
  let emittedAt = begun;
  return ({ rows, bytes, total_rows: totalRows }: Progress) => {
    const now = ctx.clock.now();
    if (now - recordedAt < RECORD_MS) return;
    recordedAt = now;
    const isEventDue = now - emittedAt >= EVENT_MS;
    if (isEventDue) emittedAt = now;
    write(ctx.db, (tx) => {
      const patch = { rows, bytes, totalRows, updatedAt: now };
      const [row] = tx
        .update(table)
        .set(patch)
        .where(and(eq(table.id, id), live))
        .returning()
        .all();
      if (row && isEventDue)
        emit(tx, "dataset_resolution.progress", { workspaceId: row.workspaceId, now }, presentResolution(row));
    });
  };
}

type Read = Extract<Outcome, { type: "read" }>;

/** Makes the rows a snapshot. If the newest snapshot has the same content, that one is used and the rows are dropped. */
async function keep(ctx: Ctx, id: string, datasetId: string, read: Read): Promise<ResolutionRow> {
  const path = partPath(ctx, datasetId);
  const { rows, bytes, sha256 } = read;
  const { making } = ctx.state.datasets;
  making.add(datasetId);
  try {
    const last = snapshots.newest(ctx, datasetId);
    const same = last?.sha256 === sha256 && existsSync(pathOf(ctx, datasetId, last.number)) ? last : undefined;
    const number = same?.number ?? (last?.number ?? 0) + 1;
    if (!same) await renameDurably(path, pathOf(ctx, datasetId, number));
    await discardPart(ctx, datasetId);
    return write(ctx.db, (tx) => {
      const now = ctx.clock.now();
      const job = tx.select({ jobId: table.jobId }).from(table).where(eq(table.id, id)).get();
      if (!same) {
        const made = { trigger: job?.jobId ? ("job_pin" as const) : ("manual" as const), jobId: job?.jobId ?? null };
        snapshots.record(tx, ctx, datasetId, { ...made, headRow: rows, digest: { rows, bytes, sha256 } });
        tx.update(datasetTable)
          .set({ format: read.format as Format })
          .where(eq(datasetTable.id, datasetId))
          .run();
      }
      const patch = { rows, bytes, totalRows: rows, snapshotNumber: number, finishedAt: now };
      return mustBe(transition(tx, machine, "complete", { id, now }, patch));
    });
  } finally {
    making.delete(datasetId);
  }
}

function settle(ctx: Ctx, id: string, action: "fail" | "cancel", error: ResolutionRow["error"]): ResolutionRow {
  const now = ctx.clock.now();
  const patch = { error: action === "fail" ? error : null, finishedAt: now };
  return write(ctx.db, (tx) => {
    const row = transition(tx, machine, action, { id, now }, patch);
    return mustBe(row ?? tx.select().from(table).where(eq(table.id, id)).get());
  });
}

function mustBe(row: ResolutionRow | undefined): ResolutionRow {
  if (!row) throw new AppError("resource_not_found", "The dataset was deleted meanwhile", { param: "id" });
  return row;
}

export const list = (ctx: Ctx, dataset: DatasetRow, query: PageQuery) =>
  page(ctx.db, table, eq(table.datasetId, dataset.id), query, presentResolution);

export function mustGet(ctx: Ctx, dataset: DatasetRow, id: string): ResolutionRow {
  const row = ctx.db
    .select()
    .from(table)
    .where(and(eq(table.id, id), eq(table.datasetId, dataset.id)))
    .get();
  if (!row) throw new AppError("resource_not_found", `No resolution ${id.slice(0, 80)}`, { param: "resolution" });
  return row;
}

/** Resolves when the reading has ended. */
export async function cancel(ctx: Ctx, dataset: DatasetRow, id: string): Promise<ResolutionRow> {
  const row = mustGet(ctx, dataset, id);
  const running = ctx.state.datasets.resolutions.get(id);
  running?.abort.abort();
  await running?.ended.catch(() => {}); // The row has the error.
  if (machine.terminal.includes(row.status))
    throw new AppError("unsupported_state", `Resolution ${id} is ${row.status} and cannot be cancelled`, {
      param: "resolution",
    });
  return mustGet(ctx, dataset, id);
}

/** Runs at the start: fails the resolutions that the previous process was reading. */
export function failInterrupted(ctx: Ctx) {
  const error = {
    code: "interrupted",
    message:
      "The server was restarted while it read the source: start another resolution with the credentials; the rows read so far are kept",
    param: null,
  };
  for (const { id } of ctx.db.select({ id: table.id }).from(table).where(live).all()) settle(ctx, id, "fail", error);
}

type Claim = ReadOptions & { jobId: string; signal?: AbortSignal; onProgress?: (row: ResolutionRow) => void };

/** Pins the snapshot that a job names until `unpin`. A connected source is read first. */
export async function claim(ctx: Ctx, workspaceId: string, reference: string, given: Claim): Promise<snapshots.Pinned> {
  const [id = "", name = "latest"] = reference.split("@");
  const dataset = datasets.mustGet(ctx, workspaceId, id, "/dataset");
  if (!dataset.source || name !== "latest") return snapshots.pin(ctx, workspaceId, reference, given.jobId);
  given.signal?.throwIfAborted();
  const reading = begin(ctx, dataset, given);
  const running = ctx.state.datasets.resolutions.get(reading.id);
  const ended = running ? await endOrAbort(running, reading.jobId === given.jobId, given.signal) : reading;
  if (ended.status !== "completed" || ended.snapshotNumber === null)
    throw new AppError(
      "source_unusable",
      ended.error?.message ?? `Resolution ${ended.id} of dataset ${id} is ${ended.status}`,
      {
        param: "/dataset",
      },
    );
  return snapshots.pin(ctx, workspaceId, `${id}@snap-${ended.snapshotNumber}`, given.jobId);
}

/** An aborted caller ends a resolution of its own. It only stops waiting for one that another caller began. */
async function endOrAbort(
  { abort, ended }: RunningResolution,
  isOwn: boolean,
  signal?: AbortSignal,
): Promise<ResolutionRow> {
  if (!signal) return ended;
  const aborted = Promise.withResolvers<never>();
  const onAbort = () => {
    if (isOwn) abort.abort();
    aborted.reject(signal.reason);
  };
  signal.addEventListener("abort", onAbort, { once: true });
  return Promise.race([ended, aborted.promise]).finally(() => signal.removeEventListener("abort", onAbort));
}

/** Aborts resolutions whose dataset was deleted. */
export function endAbandoned(ctx: Ctx) {
  for (const { datasetId, abort } of ctx.state.datasets.resolutions.values())
    if (!datasets.current(ctx, datasetId)) abort.abort();
}
