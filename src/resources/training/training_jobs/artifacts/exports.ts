/**
 * Files made of a checkpoint. A row requests a file. The loop makes few files at a time, each in a trainer process, and
 * starts again after a kill. The content goes to the storage; a model is also added to the models.
 */
import { and, eq } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { transition } from "../../../../events/lifecycle.ts";
import { AppError } from "../../../../lib/errors.ts";
import { newId } from "../../../../lib/ids.ts";
import { SECOND_MS } from "../../../../lib/units.ts";
import { type Tx, write } from "../../../../platform/db/db.ts";
import { oldestOfEach } from "../../../../platform/db/oldest_of_each.ts";
import { limitWaiting } from "../../../../platform/db/waiting_limit.ts";
import { watchGrowth } from "../../../../platform/storage/growth.ts";
import { type ForeignDir, pathForWorker } from "../../../../sandbox/files/foreign_dir.ts";
import { contentOf, fileBytes, makeDir, removeTree } from "../../../../sandbox/files/trees.ts";
import { type ExportTask, FromTrainer, type ToTrainer } from "../../../../workers/protocol_trainer.ts";
import * as looseKeys from "../../../data/loose_keys/service.ts";
import { meterOf, mustBeOpen } from "../../../data/storage_usage/service.ts";
import * as modelResults from "../../../serving/models/results.ts";
import * as models from "../../../serving/models/service.ts";
import type { ModelRow } from "../../../serving/models/table.ts";
import { grantsOf } from "../state/grants.ts";
import { baseModelOf, deviceOf } from "../state/inputs.ts";
import { checkpointDir, pathsOf } from "../state/paths.ts";
import { currentJob } from "../state/rows.ts";
import { type CheckpointRow, type ExportRow, type JobRow, trainingCheckpoints, trainingExports } from "../table.ts";
import { machine } from "./export_machine.ts";

const RETRY_MS = 30_000; // a failed export is not retried at once for a client that keeps asking

export type ExportKind = Pick<ExportRow, "variant" | "quantization">;

/** Returns the row of this export, which is created if there is none. */
export function requestExport(
  ctx: Ctx,
  tx: Tx,
  checkpoint: CheckpointRow,
  { variant, quantization }: ExportKind,
): ExportRow {
  const now = ctx.clock.now();
  const existing = find(tx, checkpoint.id, { variant, quantization });
  if (existing?.status === "failed" && now - existing.updatedAt >= RETRY_MS && checkpoint.deletedAt === null)
    return transition(tx, machine, "again", { id: existing.id, now }, { error: null }) ?? existing;
  if (existing) return existing;
  const { id: checkpointId, jobId, workspaceId } = checkpoint;
  mustBeOpen({ db: tx, config: ctx.config }, { workspaceId, kind: "checkpoints" });
  const isWaiting = and(eq(trainingExports.workspaceId, workspaceId), preparing);
  limitWaiting({ db: tx, config: ctx.config }, "exports", trainingExports, isWaiting);
  return insert(tx, { jobId, workspaceId, checkpointId, variant, quantization }, now);
}

const SERVED: ExportKind = { variant: "merged", quantization: "F16" };
const variantOf = ({ variant, quantization }: ExportKind) => `${variant} ${quantization}`;

/** The model that `requestModel` makes, also while it is being made. */
export const servedModelOf = (ctx: Ctx, workspaceId: string, checkpointId: string): ModelRow | undefined =>
  modelResults.byExport(ctx, workspaceId, checkpointId, variantOf(SERVED));

/** Makes a checkpoint of full weights a model that can be served. The row of the model exists at once. */
export function requestModel(ctx: Ctx, job: JobRow, checkpoint: CheckpointRow) {
  const now = ctx.clock.now();
  write(ctx.db, (tx) => {
    const row = requestExport(ctx, tx, checkpoint, SERVED);
    if (row.status === "failed")
      throw new AppError("worker_failed", `checkpoint: a model could not be made of it: ${row.error}`, {
        retryAfterSeconds: RETRY_MS / SECOND_MS,
      });
    if (row.status === "ready") {
      if (row.storageKey !== null) looseKeys.drop(tx, row.storageKey, now);
      transition(tx, machine, "again", { id: row.id, now }, { storageKey: null }); // its model was deleted
    }
    modelResults.announceResult(ctx, tx, {
      workspaceId: job.workspaceId,
      jobId: job.id,
      checkpointId: checkpoint.id,
      step: checkpoint.step,
      variant: variantOf(SERVED),
      name: `${job.outputName}-step-${checkpoint.step}`,
      baseModelId: job.baseModelId,
    });
  });
  ctx.wake("training_jobs.reconcile");
}

type NewExport = Pick<ExportRow, "jobId" | "workspaceId" | "checkpointId" | "variant" | "quantization">;

function insert(tx: Tx, values: NewExport, now: number): ExportRow {
  const blank = { storageKey: null, fileName: null, sizeBytes: null, sha256: null, modelId: null, error: null };
  return tx
    .insert(trainingExports)
    .values({ id: newId("upl", now), ...values, ...blank, status: machine.initial, createdAt: now, updatedAt: now })
    .returning()
    .get();
}

/** Creates the row for the output of a custom job. The output of an earlier run is deleted. */
export function replaceFiles(ctx: Ctx, tx: Tx, { id: jobId, workspaceId }: JobRow): ExportRow {
  const now = ctx.clock.now();
  const before = filesOf(tx, jobId);
  if (before?.storageKey) looseKeys.drop(tx, before.storageKey, now);
  if (before) tx.delete(trainingExports).where(eq(trainingExports.id, before.id)).run();
  return insert(tx, { jobId, workspaceId, checkpointId: jobId, variant: "files", quantization: "" }, now);
}

/** The output of a custom job. */
export const filesOf = (tx: Pick<Tx, "select">, jobId: string) =>
  find(tx, jobId, { variant: "files", quantization: "" });

export const find = (tx: Pick<Tx, "select">, checkpointId: string, { variant, quantization }: ExportKind) =>
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

/** Starts the oldest requested export of each workspace in turn, as far as there are permits. Returns at once. */
export function startNextExports(ctx: Ctx) {
  const { exports, exporting, changes } = ctx.state.trainingJobs;
  if (ctx.closing.aborted || exports.free === 0) return;
  const idle = requested(ctx.db)
    .all({ most: exports.permits })
    .filter(({ id }) => !exporting.has(id));
  exports.fillFrom(idle, (row, release) => {
    exporting.add(row.id);
    void makeExport(ctx, row)
      .catch((error) => recordFailure(ctx, row, error))
      .finally(() => {
        exporting.delete(row.id);
        release();
        changes.notify(row.jobId);
      });
  });
}

const preparing = eq(trainingExports.status, "preparing");
const requested = oldestOfEach(trainingExports, preparing);

function recordFailure(ctx: Ctx, row: ExportRow, error: unknown) {
  if (ctx.closing.aborted) return; // the next server retries
  ctx.log.error("cannot make an export", { job: row.jobId, variant: row.variant, error });
  const message = error instanceof Error ? error.message.replaceAll(`${ctx.config.data_dir}/`, "") : String(error);
  const now = ctx.clock.now();
  write(ctx.db, (tx) => {
    transition(tx, machine, "fail", { id: row.id, now }, { error: message });
    modelResults.refuseResult(ctx, tx, { checkpointId: row.checkpointId, variant: variantOf(row) }, message);
  });
}

async function makeExport(ctx: Ctx, row: ExportRow) {
  const job = currentJob(ctx.db, row.jobId);
  const checkpoint = ctx.db
    .select()
    .from(trainingCheckpoints)
    .where(eq(trainingCheckpoints.id, row.checkpointId))
    .get();
  if (!job || !checkpoint) return;
  if (checkpoint.deletedAt !== null)
    throw new Error("The files of this checkpoint were deleted: choose another checkpoint");
  const dir = pathsOf(ctx, job.id).exports;
  const out = { dir, name: row.id };
  makeDir(dir);
  await removeTree(dir.below(row.id));
  try {
    const adapter = { dir: checkpointDir(ctx, checkpoint.path), name: "adapter.gguf" };
    const from = row.variant === "adapter" ? adapter : out;
    if (row.variant !== "adapter") {
      const base = baseModelOf(ctx, job);
      if ("waits" in base) return; // retried in the next round
      await runTrainer(ctx, job, { row, checkpoint, out, model: base.ready });
    }
    await store(ctx, { job, row, checkpoint, from });
  } finally {
    await removeTree(dir.below(row.id));
  }
}

type File = { dir: ForeignDir; name: string };
type Inputs = { row: ExportRow; checkpoint: CheckpointRow; out: File; model: ModelRow };

/** Makes the file in a trainer process. Rejects with the message of its exit. */
async function runTrainer(ctx: Ctx, job: JobRow, { row, checkpoint, out, model }: Inputs) {
  const { variant, quantization } = row;
  if (variant === "files") throw new Error("The files of a custom job are not made from a checkpoint");
  const task: ExportTask = {
    type: "export",
    ...deviceOf(ctx, []),
    model_path: models.pathOf(ctx, model),
    base_model: model.name.split(":")[0] ?? model.name, // a hub name may end in the quantization
    lora: job.lora,
    checkpoint: pathForWorker(checkpointDir(ctx, checkpoint.path)),
    variant,
    quantization,
    out: pathForWorker(out.dir, out.name),
  };
  const done = Promise.withResolvers<void>();
  using meter = meterOf(ctx, { workspaceId: job.workspaceId, kind: "checkpoints" });
  using growth = watchGrowth(meter, () => fileBytes(out.dir, out.name) ?? 0, done.reject);
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
    growth.check();
  } finally {
    await worker.stop("the export is made");
  }
}

type NewFile = { job: JobRow; row: ExportRow; checkpoint: CheckpointRow; from: File };

async function store(ctx: Ctx, { job, row, checkpoint, from }: NewFile) {
  using meter = meterOf(ctx, { workspaceId: job.workspaceId, kind: "checkpoints" });
  meter.expect(fileBytes(from.dir, from.name) ?? 0);
  const key = `jobs/${job.id}/${newId("upl", ctx.clock.now())}`;
  const model =
    row.variant === "merged" || row.variant === "gguf"
      ? await register(ctx, { job, row, checkpoint, from })
      : undefined;
  await looseKeys.store(ctx, {
    key,
    put: () => ctx.storage.put(key, contentOf(from.dir, from.name), { meter }),
    own(tx, { bytes, sha256 }) {
      meter.keep(bytes);
      attachContent(ctx, tx, row, { key, bytes, sha256, name: nameOf(job, row), modelId: model?.id });
    },
  });
}

/** A merged file can be served, so it also becomes a model. */
const register = (ctx: Ctx, { job, row, checkpoint, from }: NewFile) =>
  modelResults.registerResult(ctx, {
    workspaceId: job.workspaceId,
    jobId: job.id,
    checkpointId: checkpoint.id,
    step: checkpoint.step,
    variant: variantOf(row),
    name: `${job.outputName}-${row.quantization.toLowerCase()}`,
    baseModelId: job.baseModelId,
    file: from,
  });

type Content = { key: string; bytes: number; sha256: string; name: string; modelId?: string | undefined };

/** Deletes the content if the row was deleted meanwhile. */
export function attachContent(ctx: Ctx, tx: Tx, row: ExportRow, { key, bytes, sha256, name, modelId }: Content) {
  const now = ctx.clock.now();
  const patch = { storageKey: key, fileName: name, sizeBytes: bytes, sha256, modelId: modelId ?? null, error: null };
  if (!transition(tx, machine, "make", { id: row.id, now }, patch)) looseKeys.drop(tx, key, now);
}

const nameOf = ({ outputName }: JobRow, { variant, quantization }: ExportRow) => {
  const name = outputName.replaceAll(/[^\w.-]+/g, "_").slice(0, 120) || "model";
  if (variant === "peft" || variant === "huggingface") return `${name}-${variant}.tar`;
  return variant === "adapter" ? `${name}-adapter.gguf` : `${name}-${quantization.toLowerCase()}.gguf`;
};
