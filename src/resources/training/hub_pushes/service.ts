import { and, eq, isNull } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { emit } from "../../../events/emit.ts";
import { type PageQuery, page } from "../../../http/answer/pagination.ts";
import { AppError } from "../../../lib/errors.ts";
import { newId } from "../../../lib/ids.ts";
import { type Tx, write } from "../../../platform/db/db.ts";
import { limitWaiting } from "../../../platform/db/waiting_limit.ts";
import { tokenFor } from "../../serving/models/hub/token.ts";
import * as models from "../../serving/models/service.ts";
import { checkpointOf, kindOf } from "../training_jobs/artifacts/download.ts";
import * as jobRows from "../training_jobs/state/rows.ts";
import type { JobRow } from "../training_jobs/table.ts";
import { exportOf } from "./contents.ts";
import { report } from "./machine.ts";
import * as rows from "./rows.ts";
import { type CreatePush, present } from "./schema.ts";
import { hubPushes, type PushRow } from "./table.ts";

type Target = Pick<PushRow, "workspaceId" | "repo" | "isPrivate"> &
  Partial<Pick<PushRow, "modelId" | "jobId" | "checkpointId">> &
  Pick<PushRow, "variant" | "quantization">;

function add(ctx: Ctx, tx: Tx, target: Target): PushRow {
  const now = ctx.clock.now();
  const { workspaceId } = target;
  const row = tx
    .insert(hubPushes)
    .values({
      id: newId("psh", now),
      modelId: null,
      jobId: null,
      checkpointId: null,
      ...target,
      status: "preparing",
      bytesTotal: 0,
      bytesDone: 0,
      sent: [],
      upload: null,
      url: null,
      commitId: null,
      error: null,
      attempts: 0,
      notBefore: null,
      createdAt: now,
      completedAt: null,
      updatedAt: now,
    })
    .returning()
    .get();
  emit(tx, "hub_push.created", { workspaceId, now }, report(row));
  return row;
}

/** `name`: a model, or a training job by its id. */
export function create(ctx: Ctx, workspaceId: string, name: string, input: CreatePush): PushRow {
  const target = {
    workspaceId,
    repo: input.repo,
    isPrivate: input.private,
    ...contentFor(ctx, workspaceId, name, input),
  };
  const access = tokenFor(ctx, workspaceId);
  if ("refusal" in access) throw new AppError("unsupported_state", access.refusal);
  const row = write(ctx.db, (tx) => {
    const isOpen = and(eq(hubPushes.workspaceId, workspaceId), isNull(hubPushes.completedAt));
    limitWaiting({ db: tx, config: ctx.config }, "pushes", hubPushes, isOpen);
    return add(ctx, tx, target);
  });
  ctx.wake("hub_pushes.run");
  return row;
}

type Content = Pick<Target, "modelId" | "jobId" | "checkpointId" | "variant" | "quantization">;

function contentFor(ctx: Ctx, workspaceId: string, name: string, input: CreatePush): Content {
  const { quantization, checkpoint } = input;
  if (name.startsWith("job_")) return jobContent(ctx, jobRows.mustGet(ctx, workspaceId, name), input);
  const model = models.mustGet(ctx, workspaceId, name);
  const job = model.jobId === null ? undefined : jobRows.find(ctx, workspaceId, model.jobId);
  const variant = input.variant ?? (job ? undefined : "model");
  if (variant === "model" || !job) {
    if (variant !== "model")
      throw refuse(
        "variant",
        `${model.name} was not made by a training job of this server: use model, or leave it out`,
      );
    if (quantization !== undefined || checkpoint !== undefined)
      throw refuse(quantization === undefined ? "checkpoint" : "quantization", "is only for results of a training job");
    if (model.status !== "ready") throw new AppError("unsupported_state", `The model ${model.name} is ${model.status}`);
    return { modelId: model.id, jobId: model.jobId, variant: "model", quantization: "" };
  }
  const from = checkpoint ?? model.checkpointId ?? undefined;
  return {
    ...jobContent(ctx, job, { ...input, ...(from === undefined ? {} : { checkpoint: from }) }),
    modelId: model.id,
  };
}

const refuse = (field: string, message: string) =>
  new AppError("schema", `${field}: ${message}`, { param: `/${field}` });

type PushChoice = Pick<CreatePush, "variant" | "quantization" | "checkpoint">;

function jobContent(ctx: Ctx, job: JobRow, { variant: wanted, quantization, checkpoint }: PushChoice): Content {
  if (job.method === "custom") throw refuse("variant", "the result of a custom job is files, and no model to push");
  const variant = wanted ?? (job.lora ? "adapter" : "merged");
  if (variant === "model") throw refuse("variant", "must be adapter, merged or gguf for a training job");
  const { variant: exported } = exportOf({ variant, quantization: "" });
  const kind = kindOf(job, { variant: exported, ...(quantization === undefined ? {} : { quantization }) });
  const { id } = checkpointOf(ctx, job, checkpoint);
  return { jobId: job.id, checkpointId: id, variant, quantization: kind.quantization };
}

/** For a job that has completed, in the commit that notes it. */
export function addForJob(ctx: Ctx, tx: Tx, job: JobRow) {
  const { workspaceId, hubRepo, hubVariant: variant, hubPrivate: isPrivate } = job;
  if (hubRepo === null) return;
  try {
    const content = jobContent(ctx, job, variant === null ? {} : { variant });
    add(ctx, tx, { workspaceId, repo: hubRepo, isPrivate, ...content });
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    ctx.log.warn("the result of a job cannot be pushed to the hub", { job: job.id, error: error.message });
  }
}

export const list = (ctx: Pick<Ctx, "db">, workspaceId: string, query: PageQuery) =>
  page(ctx.db, hubPushes, eq(hubPushes.workspaceId, workspaceId), query, present);

export function mustGet(ctx: Pick<Ctx, "db">, workspaceId: string, id: string): PushRow {
  const row = rows.current(ctx.db, id);
  if (row?.workspaceId === workspaceId) return row;
  throw new AppError("resource_not_found", `No push ${id.slice(0, 80)}: GET /v1/hub_pushes lists them`, {
    param: "id",
  });
}

/** Contents that the hub has already stay there. */
export function cancel(ctx: Ctx, workspaceId: string, id: string): PushRow {
  const before = mustGet(ctx, workspaceId, id);
  const row = rows.cancel(ctx, id);
  if (!row)
    throw new AppError("unsupported_state", `Push ${id} is ${before.status} and cannot be cancelled`, { param: "id" });
  ctx.state.hubPushes.running.get(id)?.stop.abort();
  ctx.wake("hub_pushes.run");
  return row;
}

/** For a deleted workspace. */
export function removeAll(ctx: Ctx, workspaceId: string) {
  const all = ctx.db.select().from(hubPushes).where(eq(hubPushes.workspaceId, workspaceId)).all();
  for (const { id } of all) ctx.state.hubPushes.running.get(id)?.stop.abort();
  write(ctx.db, (tx) => tx.delete(hubPushes).where(eq(hubPushes.workspaceId, workspaceId)).run());
}
