/** `POST /v1/training_jobs`: checks the request, pins its rows, inserts the job. */
import type { Ctx } from "../../../../context.ts";
import type { Once } from "../../../../http/idempotency.ts";
import { AppError } from "../../../../lib/errors.ts";
import { microsOf } from "../../../../lib/money.ts";
import { MINUTE_MS } from "../../../../lib/units.ts";
import { VERSION } from "../../../../lib/version.ts";
import { write } from "../../../../platform/db/db.ts";
import { preparedInsert } from "../../../../platform/db/row.ts";
import * as snapshots from "../../../data/datasets/stream/snapshots.ts";
import { mustBeOpen } from "../../../data/storage_usage/service.ts";
import * as models from "../../../serving/models/service.ts";
import type { ModelRow } from "../../../serving/models/table.ts";
import { abortCause } from "../../reward_functions/check.ts";
import * as tracker from "../../tracker/service.ts";
import { sealEnv } from "../custom/resources.ts";
import { isReadOnly } from "../policy.ts";
import { PRIORITIES, type TrainingJob } from "../schema.ts";
import { note, noteCreated } from "../state/notes.ts";
import { mustHaveHours, mustHaveRoom } from "../state/queue.ts";
import { blankJob } from "../state/rows.ts";
import { type JobRow, trainingJobs } from "../table.ts";
import { presentJob } from "../views/jobs.ts";
import { publishingTime } from "../views/publishing.ts";
import { hashOf } from "./base_model.ts";
import type { JobRequest } from "./clone.ts";
import type { CreateTrainingJob } from "./create_schema.ts";
import { type Caller, type Draft, draft } from "./draft.ts";
import { beginReading, noteReadings } from "./reading.ts";
import { resolverHash } from "./resolver.ts";
import { hashOf as hashOfRewards } from "./rewards.ts";
import { columnsOf, isUnread, type JobRows, pinPresent } from "./rows.ts";
import { mustAffordEstimate, type Size, saveStepsFor, sizeOf, UNKNOWN_SIZE } from "./sizing.ts";

const insert = preparedInsert(trainingJobs);
const KEEP_LAST = 3;

export async function create(ctx: Ctx, caller: Caller, body: CreateTrainingJob, once?: Once): Promise<TrainingJob> {
  const before = once && write(ctx.db, (tx) => once.before(tx));
  if (before) return before as TrainingJob; // the answer that `keep` stored
  mustBeOpen(ctx, { workspaceId: caller.workspaceId, kind: "checkpoints" });
  mustHaveHours(ctx, caller.workspaceId);
  mustHaveRoom(ctx, caller.workspaceId); // before rewards are loaded; again in the commit
  const drafted = await draft(ctx, caller, body);
  if ("errors" in drafted) throw drafted.errors[0];
  const job = drafted.ok;
  return ctx.state.trainingJobs.admitting(job.id, async () => {
    try {
      const { id: jobId, method, request } = job;
      const reader = { jobId, method, workspaceId: caller.workspaceId, anyFormat: job.resolver !== null };
      const rows = await pinPresent(ctx, reader, request);
      const model = job.training && (job.training.base.model ?? job.training.base.fetch());
      const size = mustSize(job, model, rows);
      mustAffordEstimate(ctx, job, size);
      const { base, teacher } = job.training ?? {};
      const sha256 = {
        model: await hashOf(ctx, model),
        start: await hashOf(ctx, base?.start),
        teacher: await hashOf(ctx, teacher),
      };
      const unread = isUnread(rows) || job.resolver !== null || (model !== null && model.shape === null);
      return insertJob(ctx, job, rowOf(ctx, job, { rows, unread, size, model, sha256 }), once);
    } catch (error) {
      write(ctx.db, (tx) => snapshots.unpin(tx, job.id));
      throw abortCause(ctx, caller.signal, error);
    }
  });
}

function mustSize({ training, custom, hardware }: Draft, model: ModelRow | null, { train }: JobRows): Size {
  if (custom) return { ...UNKNOWN_SIZE, memoryBytes: custom.leaseBytes };
  if (!training || !model?.shape) return UNKNOWN_SIZE;
  if (!train) throw new AppError("resource_not_found", "The dataset was deleted meanwhile", { param: "/dataset" });
  const size = sizeOf({ ...training, shape: model.shape }, hardware, train);
  if ("errors" in size) throw size.errors[0];
  return size.ok;
}

function insertJob(ctx: Ctx, { request, warnings }: Draft, row: JobRow, once: Once | undefined): TrainingJob {
  const { workspaceId, createdAt: now } = row;
  const answer = write(ctx.db, (tx) => {
    const model = row.baseModelId === null ? undefined : models.find(ctx, workspaceId, row.baseModelId);
    if (row.baseModelId !== null && (!model || "never" in models.usability(ctx, model)))
      throw new AppError("resource_not_found", `Model ${row.baseModel} was deleted meanwhile`, {
        param: "/base_model",
      });
    mustHaveRoom({ config: ctx.config, db: tx }, workspaceId);
    const job = insert(tx, { ...row, publishedAt: row.publish ? publishingTime(tx, now) : null });
    tracker.follow(tx, job, now);
    noteCreated(tx, job, now);
    noteReadings(ctx, tx, job);
    for (const { message, param } of warnings)
      note(tx, job, now, { level: "warn", type: "warning", message, data: { param } });
    const presented = presentJob(ctx, job);
    once?.keep(tx, presented);
    return presented;
  });
  if (row.reading) beginReading(ctx, row, request.credentials ?? {});
  ctx.wake("training_jobs.reconcile");
  return answer;
}

/** `unread`: a model is fetched, a source read or rows mapped first, so the number of steps is not known yet. */
type Facts = {
  rows: JobRows;
  unread: boolean;
  size: Size;
  model: ModelRow | null;
  sha256: Record<"model" | "start" | "teacher", string | null>;
};

export function rowOf(ctx: Ctx, job: Draft, { rows, unread, size, model, sha256 }: Facts): JobRow {
  const { id, request, method, seed, hardware, training, custom, rewards, resolver, payer } = job;
  const { teacher = null } = training ?? {};
  const now = ctx.clock.now();
  const totalSteps = unread ? 0 : (size.totalSteps ?? 0);
  const hasCredentials = Object.keys(request.credentials ?? {}).length > 0;
  const reading = { credentials: hasCredentials, save_steps: request.checkpoint?.save_steps ?? null };
  return {
    ...blankJob(),
    ...limitsOf(ctx, request, totalSteps),
    ...columnsOf(rows),
    reading: unread ? reading : null,
    warnings: [...job.warnings],
    id,
    workspaceId: payer.workspaceId,
    method,
    baseModel: request.base_model ?? null,
    baseModelId: model?.id ?? null,
    startModelId: training?.base.start?.id ?? null,
    teacher: teacher && { name: request.teacher_model ?? teacher.name, id: teacher.id },
    outputName: request.output_name ?? nameOf(method, request.base_model, id),
    hyperparameters: { ...size.values },
    given: { ...training?.given },
    lora: training?.lora ?? null,
    rewards,
    resolver,
    gpuType: hardware.type,
    gpuCount: hardware.count,
    provider: hardware.provider,
    region: hardware.region,
    placement: hardware.placement,
    seed,
    lock: {
      base_model_sha256: sha256.model,
      adapter_sha256: sha256.start,
      teacher_sha256: sha256.teacher,
      snapshot_sha256: rows.train?.sha256 ?? null,
      reward_sha256: hashOfRewards(rewards),
      resolver_sha256: resolverHash(resolver),
      resolver_id: resolver?.stored?.id ?? null,
      resolver_version: resolver?.stored?.version ?? null,
      app_version: VERSION,
      seed,
    },
    sourceJob: request.source_job ?? null,
    resumeFrom: request.resume_from ?? null,
    codeArtifactId: request.code_artifact_id ?? null,
    command: request.command ?? null,
    secrets: request.secrets ?? [],
    volumes: (request.volumes ?? []).map((volume) => ({ ...volume, read_only: isReadOnly(volume) })),
    resources: custom?.resources ?? null,
    network: custom?.network ?? null,
    ...sealEnv(ctx, id, custom?.env ?? {}),
    publish: request.publish ?? false,
    hubRepo: request.hub_repo ?? null,
    hubVariant: request.hub_variant ?? null,
    hubPrivate: request.hub_private ?? true,
    totalSteps,
    memoryBytes: size.memoryBytes,
    microDivisor: size.microDivisor,
    rateMicros: hardware.rateMicros,
    metadata: request.metadata ?? {},
    tags: request.tags ?? [],
    notes: request.notes ?? "",
    group: request.group ?? null,
    queuedAt: now,
    createdAt: now,
    updatedAt: now,
    apiKeyId: payer.keyId,
  };
}

const limitsOf = (ctx: Ctx, request: JobRequest, totalSteps: number) => ({
  priority: PRIORITIES[request.priority ?? "normal"],
  saveSteps: request.checkpoint?.save_steps ?? saveStepsFor(totalSteps),
  keepLast: request.checkpoint?.keep_last ?? KEEP_LAST,
  maxRuntimeMs: Math.round((request.max_runtime_minutes ?? ctx.config.training.max_runtime_minutes) * MINUTE_MS),
  maxCostMicros: request.max_cost_usd ? microsOf(request.max_cost_usd) : null,
});

/** The default output name: model, method, end of the job's id. Example: `verk-tiny-grpo-8f3k2a`. */
function nameOf(method: JobRow["method"], baseModel: string | undefined, id: string): string {
  const model = (baseModel ?? "")
    .split("/")
    .at(-1)
    ?.split(":")[0]
    ?.replace(/\.gguf$/i, "")
    .slice(0, 60);
  return [model, method, id.slice(-6)].filter(Boolean).join("-");
}
