/** Runs one resolution: reads a connected source and keeps its rows as a snapshot. */
import { existsSync } from "node:fs";
import { and, eq, inArray } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { emit } from "../../../../events/emit.ts";
import { transition } from "../../../../events/lifecycle.ts";
import { AppError } from "../../../../lib/errors.ts";
import type { Format } from "../../../../lib/rows/format.ts";
import type { Credentials } from "../../../../lib/source.ts";
import { SECOND_MS } from "../../../../lib/units.ts";
import { durable, write } from "../../../../platform/db/db.ts";
import { renameDurably } from "../../../../platform/files.ts";
import type { OpenMeter } from "../../../../platform/storage/meter.ts";
import { meterOf } from "../../storage_usage/service.ts";
import { machine } from "../machine.ts";
import { presentResolution } from "../schema.ts";
import * as datasets from "../service.ts";
import { discardPart, partPath, pathOf } from "../stream/files.ts";
import * as snapshots from "../stream/snapshots.ts";
import { datasets as datasetTable, type ResolutionRow, datasetResolutions as table } from "../table.ts";
import { type Outcome, type Progress, runTask } from "./connector.ts";

const RECORD_MS = SECOND_MS;
const EVENT_MS = 10 * SECOND_MS;
/** Codes of a reading that was interrupted. */
const RESUMABLE: ReadonlySet<string> = new Set(["broken", "unreachable", "too_slow", "queue_full"]);
export const isLive = inArray(table.status, ["pending", "running"]);

/** Reads the source, then completes, fails or cancels the resolution. */
export async function run(ctx: Ctx, resolution: ResolutionRow, credentials: Credentials, abort: AbortController) {
  const { id, workspaceId, datasetId } = resolution;
  const signal = AbortSignal.any([abort.signal, ctx.closing]);
  const report = reporter(ctx, id);
  using meter = meterOf(ctx, { workspaceId, kind: "datasets" });
  let full: string | undefined;
  let counted = 0;
  const count = (bytes: number) => {
    full ??= refusalOf(meter, Math.max(0, bytes - counted));
    counted = Math.max(counted, bytes);
  };
  const onProgress = (progress: Progress) => {
    report(progress);
    count(progress.bytes);
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
  if (outcome.type === "read") count(outcome.bytes);
  if (full !== undefined) {
    await discardPart(ctx, datasetId);
    return settle(ctx, id, "fail", { code: "quota_exceeded", message: full, param: null });
  }
  if (outcome.type === "read") return await keep(ctx, id, datasetId, { ...outcome, meter });
  const refusal = outcome.type === "refused" ? outcome : undefined;
  // Only after an interruption can the next resolution continue with the rows read so far.
  if (!RESUMABLE.has(refusal?.code ?? "")) await discardPart(ctx, datasetId);
  return settle(ctx, id, refusal?.code === "cancelled" ? "cancel" : "fail", {
    code: refusal?.code ?? "broken",
    message: refusal?.message ?? "The source did not answer",
    param: refusal?.param ?? null,
  });
}

/** Returns the reason why this many more bytes cannot be stored. */
function refusalOf(meter: OpenMeter, bytes: number): string | undefined {
  try {
    meter.take(bytes);
    return undefined;
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    return `The rows of the source cannot be stored. ${error.message}`;
  }
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
        .where(and(eq(table.id, id), isLive))
        .returning()
        .all();
      if (row && isEventDue)
        emit(tx, "dataset_resolution.progress", { workspaceId: row.workspaceId, now }, presentResolution(row));
    });
  };
}

type Read = Extract<Outcome, { type: "read" }> & { meter: OpenMeter };

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
        read.meter.keep(bytes);
        const cut = { trigger: job?.jobId ? ("job_pin" as const) : ("manual" as const), jobId: job?.jobId ?? null };
        snapshots.record(tx, ctx, datasetId, { ...cut, headRow: rows, digest: { rows, bytes, sha256 } });
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

export function settle(ctx: Ctx, id: string, action: "fail" | "cancel", error: ResolutionRow["error"]): ResolutionRow {
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
