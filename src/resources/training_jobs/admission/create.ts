/** `POST /v1/training_jobs`: admission, the pins of its rows, the row itself. */

import type { Ctx } from "../../../context.ts";
import { emit } from "../../../events/emit.ts";
import type { Once } from "../../../http/idempotency.ts";
import { AppError } from "../../../lib/errors.ts";
import { microsOf } from "../../../lib/money.ts";
import { oncePer } from "../../../lib/once_per.ts";
import { VERSION } from "../../../lib/version.ts";
import { type Db, write } from "../../../platform/db/db.ts";
import { preparedInsert } from "../../../platform/db/row.ts";
import { sha256File } from "../../../platform/files.ts";
import * as resolutions from "../../datasets/connected/resolve.ts";
import * as datasets from "../../datasets/service.ts";
import * as snapshots from "../../datasets/stream/snapshots.ts";
import * as models from "../../models/service.ts";
import * as codeCheck from "../../reward_functions/check.ts";
import { mustBeOpen } from "../../storage_usage/service.ts";
import * as settings from "../../tracker/service.ts";
import { machine, report } from "../machine.ts";
import type { TrainingJob } from "../schema.ts";
import * as jobs from "../service.ts";
import { note } from "../state/notes.ts";
import { mustHaveRoom } from "../state/queue.ts";
import { type JobRow, trainingJobs } from "../table.ts";
import { publishingTime } from "../views/publishing.ts";
import type { Wanted } from "./clone.ts";
import { type CreateTrainingJob, PRIORITIES } from "./create_schema.ts";
import { type Asker, type Draft, draft, type Rows, type Sized, sized } from "./draft.ts";
import { mustSuit } from "./references.ts";
import { hashOf } from "./rewards.ts";

const insert = preparedInsert(trainingJobs);
const KEEP_LAST = 3;
const SAVES = 10; // of a job that does not say how often

/** On their way in: what is pinned for these is not lost, and what lies in their place is theirs. */
export const admittingOf = oncePer((_db: Db) => new Set<string>());

export async function open(ctx: Ctx, asker: Asker, body: CreateTrainingJob, once?: Once): Promise<TrainingJob> {
  const before = once && write(ctx.db, (tx) => once.before(tx));
  if (before) return before as TrainingJob; // what `keep` was given
  mustBeOpen(ctx, { workspaceId: asker.workspaceId, kind: "checkpoints" });
  mustHaveRoom(ctx, asker.workspaceId); // before its rows are read, which may take hours; again in the commit
  const made = await draft(ctx, asker, body);
  made.faults.throwFirst();
  const admitting = admittingOf(ctx.db);
  admitting.add(made.id);
  try {
    const rows = await pinned(ctx, asker, made);
    const fit = sized(ctx, made, rows.train);
    made.faults.throwFirst();
    await hashed(ctx, made);
    return keep(ctx, made, rowOf(ctx, made, rows, fit as Sized), once);
  } catch (error) {
    write(ctx.db, (tx) => snapshots.unpin(tx, made.id));
    throw codeCheck.gone(ctx, asker.signal, error);
  } finally {
    admitting.delete(made.id);
  }
}

/** A file that was just put into the models folder may not have been read yet. */
async function hashed(ctx: Ctx, made: Draft) {
  if (made.model?.sha256 === null)
    made.model = { ...made.model, sha256: await sha256File(models.pathOf(ctx, made.model)) };
}

export type JobRows = { train: Rows | undefined; held: Rows | undefined };

async function pinned(ctx: Ctx, { workspaceId, signal }: Asker, made: Draft): Promise<JobRows> {
  const { wanted, faults } = made;
  const claim = async (reference: string, param: "/dataset" | "/eval_dataset"): Promise<Rows | undefined> => {
    const given = { credentials: wanted.credentials ?? {}, jobId: made.id, signal };
    const held = await faults.attemptLater(() => resolutions.claim(ctx, workspaceId, reference, given), {
      "/dataset": param,
      id: param,
    });
    faults.throwFirst();
    const row = held && datasets.current(ctx, held.dataset.id); // its format may be news
    if (!row) return undefined;
    if (wanted.method) mustSuit(wanted.method, row, param);
    const { number, rowCount, sha256 } = held.snapshot;
    return { datasetId: row.id, snapshotNumber: number, sha256, rows: rowCount, format: row.format };
  };
  const train = wanted.dataset === undefined ? undefined : await claim(wanted.dataset, "/dataset");
  const held = wanted.eval_dataset ? await claim(wanted.eval_dataset, "/eval_dataset") : undefined;
  if (held?.rows === 0) faults.refuse("/eval_dataset", "has no rows");
  return { train, held };
}

function keep(ctx: Ctx, { faults }: Draft, row: JobRow, once: Once | undefined): TrainingJob {
  const { workspaceId, createdAt: now } = row;
  const answer = write(ctx.db, (tx) => {
    if (row.baseModelId !== null && models.find(ctx, workspaceId, row.baseModelId)?.status !== "ready")
      throw new AppError("resource_not_found", `Model ${row.baseModel} was deleted meanwhile`, {
        param: "/base_model",
      });
    mustHaveRoom({ config: ctx.config, db: tx }, workspaceId);
    const made = insert(tx, { ...row, publishedAt: row.publish ? publishingTime(tx, now) : null });
    settings.follow(tx, made, now);
    emit(tx, "job.created", { workspaceId, now }, report(made));
    note(tx, made, now, { level: "info", type: "job.created", message: "Created, waits in the queue" });
    for (const { message, param } of faults.warnings)
      note(tx, made, now, { level: "warn", type: "warning", message, data: { param } });
    const shown = jobs.shown(ctx, made);
    once?.keep(tx, shown);
    return shown;
  });
  ctx.wake("training_jobs.reconcile");
  return answer;
}

const BLANK = {
  status: machine.initial,
  gpu: null,
  step: 0,
  etaMs: null,
  latestMetrics: {},
  bestCheckpointId: null,
  memoryRetries: 0,
  crashes: 0,
  crashStep: 0,
  notBefore: 0,
  pauseReason: null,
  queueReason: null,
  error: null,
  publishedAt: null,
  likeCount: 0,
  trackerRunUrl: null,
  costMicros: 0,
  costRemainder: 0,
  energyJoules: null,
  energyWatts: null,
  energyAt: null,
  runMs: 0,
  runSince: null,
  runUntil: null,
  logKey: null,
  logBytes: null,
  startedAt: null,
  completedAt: null,
};

export function rowOf(ctx: Ctx, made: Draft, rows: JobRows, fit: Sized): JobRow {
  const { id, wanted, seed, place, model, rewards, workspaceId, keyId } = made;
  const now = ctx.clock.now();
  const method = wanted.method as JobRow["method"]; // admission refuses a request without
  return {
    ...BLANK,
    ...limitsOf(ctx, wanted, fit.totalSteps ?? 0),
    ...datasetsOf(rows),
    id,
    workspaceId,
    method,
    baseModel: wanted.base_model ?? null,
    baseModelId: model?.id ?? null,
    outputName: wanted.output_name ?? nameOf(method, wanted.base_model, id),
    hyperparameters: { ...fit.values },
    given: { ...made.given },
    lora: made.lora ?? null,
    rewards,
    gpuType: place.type,
    gpuCount: place.count,
    provider: "local",
    seed,
    lock: {
      base_model_sha256: model?.sha256 ?? null,
      snapshot_sha256: rows.train?.sha256 ?? null,
      reward_sha256: hashOf(rewards),
      app_version: VERSION,
      seed,
    },
    sourceJob: wanted.source_job ?? null,
    resumeFrom: wanted.resume_from ?? null,
    codeArtifactId: wanted.code_artifact_id ?? null,
    command: wanted.command ?? null,
    secrets: wanted.secrets ?? [],
    volumes: wanted.volumes ?? [],
    publish: wanted.publish ?? false,
    totalSteps: fit.totalSteps ?? 0,
    memoryBytes: fit.memoryBytes,
    microDivisor: fit.microDivisor,
    rateMicros: place.rateMicros,
    metadata: wanted.metadata ?? {},
    queuedAt: now,
    createdAt: now,
    updatedAt: now,
    apiKeyId: keyId,
  };
}

const limitsOf = (ctx: Ctx, wanted: Wanted, totalSteps: number) => ({
  priority: PRIORITIES[wanted.priority ?? "normal"],
  saveSteps: wanted.checkpoint?.save_steps ?? Math.ceil(totalSteps / SAVES),
  keepLast: wanted.checkpoint?.keep_last ?? KEEP_LAST,
  maxRuntimeMs: Math.round((wanted.max_runtime_minutes ?? ctx.config.training.max_runtime_minutes) * 60_000),
  maxCostMicros: wanted.max_cost_usd ? microsOf(wanted.max_cost_usd) : null,
});

const datasetsOf = ({ train, held }: JobRows) => ({
  datasetId: train?.datasetId ?? null,
  snapshotNumber: train?.snapshotNumber ?? null,
  numRows: train?.rows ?? null,
  evalDatasetId: held?.datasetId ?? null,
  evalSnapshotNumber: held?.snapshotNumber ?? null,
});

/** `verk-tiny-grpo-8f3k2a`: the model, the method, the end of the job's id. */
function nameOf(method: JobRow["method"], baseModel: string | undefined, id: string): string {
  const model = (baseModel ?? "")
    .split("/")
    .at(-1)
    ?.split(":")[0]
    ?.replace(/\.gguf$/i, "")
    .slice(0, 60);
  return [model, method, id.slice(-6)].filter(Boolean).join("-");
}
