/**
 * The first stage of a job whose model or rows are not here yet: it waits for the model's file, reads the source of a
 * connected dataset into a snapshot, and lets the data resolver of the job map the rows. The job is queued meanwhile, and a
 * restarted server begins the stage again. The
 * credentials of the request are only in the memory of this process, and only until the reading has ended.
 */
import { and, eq, isNotNull, isNull } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { AppError } from "../../../../lib/errors.ts";
import type { Credentials } from "../../../../lib/source.ts";
import type { Method } from "../../../../lib/training/fields.ts";
import type { LoraSettings } from "../../../../lib/training/lora.ts";
import { nextTurn, takingTurns } from "../../../../lib/turns.ts";
import { afterCommit, prepared, type Tx, write } from "../../../../platform/db/db.ts";
import { snapshotId } from "../../../data/datasets/schema.ts";
import * as datasets from "../../../data/datasets/service.ts";
import { hasResolved } from "../../../data/datasets/stream/resolved.ts";
import * as snapshots from "../../../data/datasets/stream/snapshots.ts";
import * as models from "../../../serving/models/service.ts";
import type { ModelRow } from "../../../serving/models/table.ts";
import { hardwareFor } from "../remote/placing.ts";
import { baseModelOf, Unstartable } from "../state/inputs.ts";
import * as moves from "../state/moves.ts";
import { note } from "../state/notes.ts";
import { unfinishedJob } from "../state/rows.ts";
import { type JobError, type JobRow, trainingJobs } from "../table.ts";
import { hashOf } from "./base_model.ts";
import { Faults } from "./faults.ts";
import { fitLora } from "./hyperparameters.ts";
import { trainable } from "./references.ts";
import { PARAMS, resolveAll } from "./resolver.ts";
import { columnsOf, type JobRows, readAndPin } from "./rows.ts";
import { type Size, saveStepsFor, sizeOf, UNKNOWN_SIZE } from "./sizing.ts";

/** Call it in the turn in which the row was inserted, so that `reconcileReadings` does not take it for a lost one. */
export function beginReading(ctx: Ctx, job: JobRow, credentials: Credentials) {
  const live = ctx.state.trainingJobs;
  const abort = new AbortController();
  const signal = AbortSignal.any([abort.signal, ctx.closing]);
  const over = read(ctx, job, credentials, signal).finally(() => {
    live.removeReading(job.id);
    ctx.wake("training_jobs.reconcile");
  });
  live.addReading(job.id, { abort, over });
}

async function read(ctx: Ctx, job: JobRow, credentials: Credentials, signal: AbortSignal) {
  try {
    await nextTurn(); // a restarted server begins many
    const model = await waitForModel(ctx, job, signal);
    const pinned = await readAndPin(ctx, job, { credentials, signal });
    const { rows, resolver } = await resolveAll(ctx, job, pinned, signal);
    const { size, lora } = await sizeAgain(ctx, job, model, rows);
    const { save_steps: saveSteps = null } = job.reading ?? {};
    finishReading(ctx, job.id, {
      ...columnsOf(rows),
      resolver,
      lora,
      snapshotSha256: rows.train?.sha256 ?? null,
      modelSha256: await hashOf(ctx, model),
      hyperparameters: { ...size.values },
      totalSteps: size.totalSteps ?? 0,
      memoryBytes: size.memoryBytes,
      microDivisor: size.microDivisor,
      saveSteps: saveSteps ?? saveStepsFor(size.totalSteps ?? 0),
    });
  } catch (error) {
    // A job that ended has no use for the rows. A server that stops leaves the row, and the next one decides.
    if (!signal.aborted) moves.failReading(ctx, job.id, causeOf(ctx, job, error));
  } finally {
    if (!unfinishedJob(ctx.db, job.id)) write(ctx.db, (tx) => snapshots.unpin(tx, job.id));
  }
}

type Facts = Pick<
  JobRow,
  | "resolver"
  | "lora"
  | "datasetId"
  | "snapshotNumber"
  | "numRows"
  | "evalDatasetId"
  | "evalSnapshotNumber"
  | "hyperparameters"
  | "totalSteps"
  | "memoryBytes"
  | "microDivisor"
  | "saveSteps"
> & { snapshotSha256: string | null; modelSha256: string | null };

/** Puts the job into the queue with its pinned rows. Nothing happens if the job has ended. */
function finishReading(ctx: Ctx, id: string, { snapshotSha256, modelSha256, ...facts }: Facts) {
  const now = ctx.clock.now();
  write(ctx.db, (tx) => {
    const job = unfinishedJob(tx, id);
    if (!job?.reading) return;
    const lock = { ...job.lock, snapshot_sha256: snapshotSha256, base_model_sha256: modelSha256 };
    tx.update(trainingJobs)
      .set({ ...facts, lock, reading: null, updatedAt: now })
      .where(eq(trainingJobs.id, id))
      .run();
    for (const [datasetId, before, number] of [
      [facts.datasetId, job.snapshotNumber, facts.snapshotNumber],
      [facts.evalDatasetId, job.evalSnapshotNumber, facts.evalSnapshotNumber],
    ] as const) {
      if (datasetId === null || before !== null || number === null) continue;
      const snapshot_id = snapshotId(number);
      const message = `The dataset ${datasetId} was read as ${snapshot_id}`;
      note(tx, job, now, {
        level: "info",
        type: "dataset.read",
        message,
        data: { dataset_id: datasetId, snapshot_id },
      });
    }
    if (facts.resolver?.train) {
      const { rows, rows_in } = facts.resolver.train;
      const message = `The data resolver made ${rows} rows of ${rows_in}`;
      note(tx, job, now, { level: "info", type: "dataset.resolved", message, data: { rows, rows_in } });
    }
    afterCommit(tx, () => ctx.state.trainingJobs.changes.notify(id));
  });
}

const CHECK_MS = 500;

/** Waits for the file of the base model. Throws the reason if there will be none. Undefined for a custom job. */
async function waitForModel(ctx: Ctx, job: JobRow, signal: AbortSignal): Promise<ModelRow | undefined> {
  if (job.method === "custom") return undefined;
  for (;;) {
    signal.throwIfAborted();
    const base = baseModelOf(ctx, job);
    if ("ready" in base) return trainable(ctx, base.ready);
    if (base.model.id === job.baseModelId && base.model.shape) return trainable(ctx, base.model); // it is checked again
    await ctx.clock.sleep(CHECK_MS, signal);
  }
}

type Sized = { size: Size; lora: LoraSettings | null };

/** The LoRA modules, the hyperparameters, the steps and the memory follow from the model and the rows. */
async function sizeAgain(ctx: Ctx, job: JobRow, model: ModelRow | undefined, { train }: JobRows): Promise<Sized> {
  if (!model) return { size: UNKNOWN_SIZE, lora: job.lora };
  const { shape } = model;
  if (shape?.type !== "model") {
    const message = `base_model: ${model.name} is an adapter: create the job again, now that its file is here`;
    throw new AppError("schema", message, { param: "/base_model" });
  }
  if (!train) throw new AppError("resource_not_found", "The dataset was deleted meanwhile", { param: "/dataset" });
  const faults = new Faults();
  const { method, provider, region } = job;
  const gpu = { gpu_type: job.gpuType, gpu_count: job.gpuCount };
  const hardware = await hardwareFor(ctx, job.workspaceId, { gpu, provider, region }, faults);
  const lora = fitLora(job.lora, shape.architecture, faults);
  if (lora === undefined) throw faults.errors[0];
  const teacher = job.teacher && (models.find(ctx, job.workspaceId, job.teacher.id) ?? null);
  const size = sizeOf({ method: method as Method, shape, lora, teacher, given: job.given ?? {} }, hardware, train);
  const errors = [...faults.errors, ...("errors" in size ? size.errors : [])];
  if (errors[0] || "errors" in size) throw errors[0];
  return { size: size.ok, lora };
}

function causeOf(ctx: Ctx, job: JobRow, error: unknown): JobError {
  if (error instanceof Unstartable) return error.error;
  if (error instanceof AppError && error.status < 500) {
    const { param } = error;
    const isOfRows =
      param === null || param.startsWith("/dataset") || param.startsWith("/eval_dataset") || PARAMS.includes(param);
    return { code: isOfRows ? "dataset_error" : "provisioning_failed", message: error.message, param };
  }
  ctx.log.error("reading the dataset of a job failed", { job: job.id, error });
  const message = "The dataset could not be read because of an error of the server. Create the job again";
  return { code: "dataset_error", message, param: "/dataset" };
}

const unreadJobs = prepared((db) =>
  db
    .select()
    .from(trainingJobs)
    .where(and(isNull(trainingJobs.completedAt), isNotNull(trainingJobs.reading)))
    .prepare(),
);

/** Aborts readings of ended jobs, and decides about jobs whose reading an earlier server lost. */
export async function reconcileReadings(ctx: Ctx) {
  const turn = takingTurns();
  const live = ctx.state.trainingJobs;
  for (const [id, { abort }] of live.readings()) if (!unfinishedJob(ctx.db, id)?.reading) abort.abort();
  for (const job of [...unreadJobs(ctx.db).all(), ...lostRows(ctx)]) {
    await turn();
    if (live.isReading(job.id) || !unfinishedJob(ctx.db, job.id)?.reading) continue;
    if (job.reading?.credentials) moves.failReading(ctx, job.id, lostCredentials(job));
    else {
      const what = isModelHere(ctx, job) ? "reading the dataset again" : "waiting for the model again";
      const type = isModelHere(ctx, job) ? "dataset.reading" : "model.waiting";
      const message = `The server restarted; ${what}`;
      write(ctx.db, (tx) => note(tx, job, ctx.clock.now(), { level: "warn", type, message }));
      beginReading(ctx, job, {});
    }
  }
}

const resolvedJobs = prepared((db) => {
  const { status, resolver, reading } = trainingJobs;
  const queued = and(eq(status, "queued"), isNotNull(resolver), isNull(reading));
  return db.select().from(trainingJobs).where(queued).prepare();
});

/** Queued jobs whose resolved rows are gone. They wait for their rows again. */
function lostRows(ctx: Ctx): JobRow[] {
  const { id } = trainingJobs;
  return resolvedJobs(ctx.db)
    .all()
    .flatMap((job) => {
      if (hasResolved(ctx, job.id)) return [];
      const again = { ...job, reading: { credentials: false, save_steps: job.saveSteps } };
      write(ctx.db, (tx) => void tx.update(trainingJobs).set({ reading: again.reading }).where(eq(id, job.id)).run());
      return [again];
    });
}

const lostCredentials = (job: JobRow): JobError => ({
  code: "dataset_error",
  message: `The server restarted while it read the dataset ${job.datasetId ?? job.evalDatasetId}, and the credentials of the request are not stored. Create the job again with its credentials; the rows read so far are kept`,
  param: "/credentials",
});

const isModelHere = (ctx: Ctx, job: JobRow): boolean =>
  job.baseModelId === null || models.find(ctx, job.workspaceId, job.baseModelId)?.shape !== null;

/** A line of the history for the model that the job waits for, and for each source that it will read. */
export function noteReadings(ctx: Ctx, tx: Tx, job: JobRow) {
  if (!isModelHere(ctx, job)) {
    const message = `Waiting for the model ${job.baseModel}, which is not ready yet`;
    note(tx, job, job.createdAt, { level: "info", type: "model.waiting", message, data: { model: job.baseModel } });
  }
  for (const [id, number] of [
    [job.datasetId, job.snapshotNumber],
    [job.evalDatasetId, job.evalSnapshotNumber],
  ] as const) {
    const dataset = id === null || number !== null ? undefined : datasets.current(ctx, id);
    if (!dataset) continue;
    const message = `Reading the dataset ${dataset.id} from ${dataset.sourceType}`;
    const data = { dataset_id: dataset.id, source_type: dataset.sourceType };
    note(tx, job, job.createdAt, { level: "info", type: "dataset.reading", message, data });
  }
}
