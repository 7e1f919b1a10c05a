/**
 * Files made of a checkpoint. A row says that one is wanted; the loop makes one at a time, in a process of its own, and
 * after a kill it begins again. Content goes to the storage; models go to the registry as well.
 */
import { and, asc, eq } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { transition } from "../../../events/lifecycle.ts";
import { newId } from "../../../lib/ids.ts";
import { type Tx, write } from "../../../platform/db/db.ts";
import { type ForeignDir, pathForWorker } from "../../../sandbox/files/foreign_dir.ts";
import { contentOf, fileBytes, makeDir, removeTree } from "../../../sandbox/files/trees.ts";
import { type ExportTask, FromTrainer, type ToTrainer } from "../../../workers/protocol_trainer.ts";
import * as looseKeys from "../../loose_keys/service.ts";
import * as modelResults from "../../models/results.ts";
import * as models from "../../models/service.ts";
import type { ModelRow } from "../../models/table.ts";
import { mustBeOpen, mustHaveRoom } from "../../storage_usage/service.ts";
import { baseModelOf, deviceOf } from "../running/plan.ts";
import { changed } from "../state/change_signals.ts";
import { grantsOf } from "../state/grants.ts";
import { liveOf } from "../state/live.ts";
import { current } from "../state/moves.ts";
import { checkpointDir, placesOf } from "../state/paths.ts";
import { type CheckpointRow, type ExportRow, type JobRow, trainingCheckpoints, trainingExports } from "../table.ts";
import { machine } from "./export_machine.ts";

const AGAIN_MS = 30_000; // one that failed is not tried at once by whoever asks again and again

export type Wanted = Pick<ExportRow, "variant" | "quantization">;

/** The row of this export, made where it is not there yet. In a commit of the caller's. */
export function want(ctx: Ctx, tx: Tx, checkpoint: CheckpointRow, { variant, quantization }: Wanted): ExportRow {
  const now = ctx.clock.now();
  const known = find(tx, checkpoint.id, { variant, quantization });
  if (known?.status === "failed" && now - known.updatedAt >= AGAIN_MS && checkpoint.deletedAt === null)
    return transition(tx, machine, "again", { id: known.id, now }, { error: null }) ?? known;
  if (known) return known;
  const { id: checkpointId, jobId, workspaceId } = checkpoint;
  mustBeOpen({ db: tx, config: ctx.config }, { workspaceId, kind: "checkpoints" });
  return insert(tx, { jobId, workspaceId, checkpointId, variant, quantization }, now);
}

type New = Pick<ExportRow, "jobId" | "workspaceId" | "checkpointId" | "variant" | "quantization">;

function insert(tx: Tx, given: New, now: number): ExportRow {
  const blank = { storageKey: null, fileName: null, sizeBytes: null, sha256: null, modelId: null, error: null };
  return tx
    .insert(trainingExports)
    .values({ id: newId("upl", now), ...given, ...blank, status: machine.initial, createdAt: now, updatedAt: now })
    .returning()
    .get();
}

/** The row for what a custom job left behind; that of an earlier run gives way, and its content with it. */
export function wantFiles(ctx: Ctx, tx: Tx, { id: jobId, workspaceId }: JobRow): ExportRow {
  const now = ctx.clock.now();
  const before = find(tx, jobId, { variant: "files", quantization: "" });
  if (before?.storageKey) looseKeys.drop(tx, before.storageKey, now);
  if (before) tx.delete(trainingExports).where(eq(trainingExports.id, before.id)).run();
  const wanted: Wanted = { variant: "files", quantization: "" };
  return insert(tx, { jobId, workspaceId, checkpointId: jobId, ...wanted }, now);
}

export const find = (tx: Pick<Tx, "select">, checkpointId: string, { variant, quantization }: Wanted) =>
  tx
    .select()
    .from(trainingExports)
    .where(
      and(
        eq(trainingExports.checkpointId, checkpointId),
        eq(trainingExports.variant, variant),
        eq(trainingExports.quantization, quantization),
      ),
    )
    .get();

/** The next one, if none is being made. Beside the loop. */
export function exportDue(ctx: Ctx) {
  const live = liveOf(ctx.db);
  if (live.exporting || ctx.closing.aborted) return;
  const preparing = eq(trainingExports.status, "preparing");
  const row = ctx.db.select().from(trainingExports).where(preparing).orderBy(asc(trainingExports.id)).limit(1).get();
  if (!row) return;
  live.exporting = make(ctx, row)
    .catch((error) => failed(ctx, row, error))
    .finally(() => {
      live.exporting = undefined;
      changed(ctx, row.jobId);
    });
}

function failed(ctx: Ctx, row: ExportRow, error: unknown) {
  if (ctx.closing.aborted) return; // the next server begins again
  ctx.log.error("an export could not be made", { job: row.jobId, variant: row.variant, error });
  const message = error instanceof Error ? error.message.replaceAll(`${ctx.config.data_dir}/`, "") : String(error);
  const now = ctx.clock.now();
  write(ctx.db, (tx) => transition(tx, machine, "fail", { id: row.id, now }, { error: message }));
}

async function make(ctx: Ctx, row: ExportRow) {
  const job = current(ctx.db, row.jobId);
  const checkpoint = ctx.db
    .select()
    .from(trainingCheckpoints)
    .where(eq(trainingCheckpoints.id, row.checkpointId))
    .get();
  if (!job || !checkpoint) return;
  if (checkpoint.deletedAt !== null) throw new Error("The files of this checkpoint are gone: choose another");
  const dir = placesOf(ctx, job.id).exports;
  const out = { dir, name: row.id };
  makeDir(dir);
  await removeTree(dir.below(row.id));
  try {
    const adapter = { dir: checkpointDir(ctx, checkpoint.path), name: "adapter.gguf" };
    const from = row.variant === "adapter" ? adapter : out;
    if (row.variant !== "adapter") {
      const base = baseModelOf(ctx, job);
      if ("waits" in base) return; // it is tried again in the next round
      await work(ctx, job, { row, checkpoint, out, model: base.ready });
    }
    await keep(ctx, { job, row, checkpoint, from });
  } finally {
    await removeTree(dir.below(row.id));
  }
}

type File = { dir: ForeignDir; name: string };
type Work = { row: ExportRow; checkpoint: CheckpointRow; out: File; model: ModelRow };

/** By a trainer that makes files. Rejects with what it said. */
async function work(ctx: Ctx, job: JobRow, { row, checkpoint, out, model }: Work) {
  const { variant, quantization } = row;
  if (variant === "files") throw new Error("Files of a custom job are not made of a checkpoint");
  const task: ExportTask = {
    type: "export",
    ...deviceOf(ctx, []),
    model_path: models.pathOf(ctx, model),
    base_model: job.baseModel,
    lora: job.lora,
    checkpoint: pathForWorker(checkpointDir(ctx, checkpoint.path)),
    variant,
    quantization,
    out: pathForWorker(out.dir, out.name),
  };
  const done = Promise.withResolvers<void>();
  const worker = ctx.supervisor.spawn<FromTrainer, ToTrainer>({
    kind: "trainer",
    incoming: FromTrainer,
    grants: grantsOf(task),
    extraEnv: { CUDA_VISIBLE_DEVICES: "" },
    onMessage(message) {
      if (message.type === "exported") done.resolve();
    },
    onExit: ({ message }) => done.reject(new Error(message)),
  });
  try {
    await worker.ready;
    worker.send(task);
    await done.promise;
  } finally {
    await worker.stop("the export is made");
  }
}

type Made = { job: JobRow; row: ExportRow; checkpoint: CheckpointRow; from: File };

async function keep(ctx: Ctx, { job, row, checkpoint, from }: Made) {
  mustHaveRoom(
    ctx,
    { workspaceId: job.workspaceId, kind: "checkpoints" },
    { bytes: fileBytes(from.dir, from.name) ?? 0 },
  );
  const key = `jobs/${job.id}/${newId("upl", ctx.clock.now())}`;
  const model =
    row.variant === "merged" || row.variant === "gguf"
      ? await register(ctx, { job, row, checkpoint, from })
      : undefined;
  await looseKeys.store(ctx, {
    key,
    put: () => ctx.storage.put(key, contentOf(from.dir, from.name)),
    own: (tx, { bytes, sha256 }) =>
      own(ctx, tx, row, { key, bytes, sha256, name: nameOf(job, row), modelId: model?.id }),
  });
}

/** Also what can be served as it is. */
const register = (ctx: Ctx, { job, row, checkpoint, from }: Made) =>
  modelResults.registerResult(ctx, {
    workspaceId: job.workspaceId,
    jobId: job.id,
    checkpointId: checkpoint.id,
    step: checkpoint.step,
    variant: `${row.variant} ${row.quantization}`,
    name: `${job.outputName}-${row.quantization.toLowerCase()}`,
    baseModelId: job.baseModelId,
    file: from,
  });

type Content = { key: string; bytes: number; sha256: string; name: string; modelId?: string | undefined };

export function own(ctx: Ctx, tx: Tx, row: ExportRow, { key, bytes, sha256, name, modelId = undefined }: Content) {
  const now = ctx.clock.now();
  const patch = { storageKey: key, fileName: name, sizeBytes: bytes, sha256, modelId: modelId ?? null, error: null };
  if (!transition(tx, machine, "make", { id: row.id, now }, patch)) looseKeys.drop(tx, key, now); // deleted meanwhile
}

const nameOf = ({ outputName }: JobRow, { variant, quantization }: ExportRow) => {
  const name = outputName.replaceAll(/[^\w.-]+/g, "_").slice(0, 120) || "model";
  if (variant === "peft") return `${name}-peft.tar`;
  return variant === "adapter" ? `${name}-adapter.gguf` : `${name}-${quantization.toLowerCase()}.gguf`;
};
