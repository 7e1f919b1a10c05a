/**
 * Resolutions: a connected source is read into a snapshot of its own. The credentials are kept in memory only. A
 * restart therefore fails a running resolution, but keeps the rows it has read. The next resolution continues there.
 */
import { and, eq } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { emit } from "../../../../events/emit.ts";
import { type PageQuery, page } from "../../../../http/answer/pagination.ts";
import { AppError } from "../../../../lib/errors.ts";
import { newId } from "../../../../lib/ids.ts";
import type { Credentials } from "../../../../lib/source.ts";
import { write } from "../../../../platform/db/db.ts";
import { mustBeOpen } from "../../storage_usage/service.ts";
import { machine } from "../machine.ts";
import { presentResolution } from "../schema.ts";
import * as datasets from "../service.ts";
import * as snapshots from "../stream/snapshots.ts";
import { type DatasetRow, type ResolutionRow, datasetResolutions as table } from "../table.ts";
import { isLive, run, settle } from "./run.ts";

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
    .where(and(eq(table.datasetId, dataset.id), isLive))
    .get();
  if (current) return current;
  mustBeOpen(ctx, { workspaceId: dataset.workspaceId, kind: "datasets" });
  ctx.state.datasets.reads.mustHaveRoom(dataset.workspaceId);
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
  for (const { id } of ctx.db.select({ id: table.id }).from(table).where(isLive).all()) settle(ctx, id, "fail", error);
}

type Claim = ReadOptions & { jobId: string; signal?: AbortSignal; onProgress?: (row: ResolutionRow) => void };

/**
 * Pins the snapshot that a job names until `unpin`. A connected source is read first. If a reading that another caller
 * began does not complete, the job reads the source itself, with its own credentials.
 */
export async function claim(
  ctx: Ctx,
  workspaceId: string,
  reference: string,
  claimant: Claim,
): Promise<snapshots.Pinned> {
  const [id = "", name = "latest"] = reference.split("@");
  const dataset = datasets.mustGet(ctx, workspaceId, id, "/dataset");
  if (!dataset.source || name !== "latest") return snapshots.pin(ctx, workspaceId, reference, claimant.jobId);
  const ended = await readFor(ctx, dataset, claimant);
  if (ended.status !== "completed" || ended.snapshotNumber === null)
    throw new AppError(
      "source_unusable",
      ended.error?.message ?? `Resolution ${ended.id} of dataset ${id} is ${ended.status}`,
      {
        param: "/dataset",
      },
    );
  return snapshots.pin(ctx, workspaceId, `${id}@snap-${ended.snapshotNumber}`, claimant.jobId);
}

async function readFor(ctx: Ctx, dataset: DatasetRow, claimant: Claim): Promise<ResolutionRow> {
  for (;;) {
    claimant.signal?.throwIfAborted();
    const reading = begin(ctx, datasets.mustGet(ctx, dataset.workspaceId, dataset.id, "/dataset"), claimant);
    const running = ctx.state.datasets.resolutions.get(reading.id);
    const isOwn = reading.jobId === claimant.jobId;
    const ended = running ? await endOrAbort(running, isOwn, claimant.signal) : reading;
    if (isOwn || !running || ended.status === "completed") return ended;
  }
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
