/** The inputs of a trainer process: base model, dataset rows, device. Throws `Unstartable` if one is gone for good. */
import { availableParallelism } from "node:os";
import type { Ctx } from "../../../../context.ts";
import { AppError } from "../../../../lib/errors.ts";
import type { TrainPlan } from "../../../../workers/protocol_trainer.ts";
import * as datasets from "../../../data/datasets/service.ts";
import * as datasetFiles from "../../../data/datasets/stream/files.ts";
import * as snapshots from "../../../data/datasets/stream/snapshots.ts";
import * as models from "../../../serving/models/service.ts";
import type { ModelRow } from "../../../serving/models/table.ts";
import type { JobError, JobRow } from "../table.ts";

/** The job can never start. `error`: the failure for its row. */
export class Unstartable extends Error {
  constructor(readonly error: JobError) {
    super(error.message);
    this.name = "Unstartable";
  }
}

export const unstartable = (code: JobError["code"], message: string, param: string) =>
  new Unstartable({ code, message, param });

/** `number`: of the snapshot. Null reads the rows as they are now, which only a preview may do. */
export function rowsOf(
  ctx: Ctx,
  job: JobRow,
  id: string,
  number: number | null,
  param = "/dataset",
): TrainPlan["rows"] {
  const dataset = datasets.find(ctx, job.workspaceId, id);
  const snapshot = number === null || !dataset ? dataset : snapshots.named(ctx, dataset, `@snap-${number}`);
  if (!dataset || !snapshot) throw unstartable("dataset_error", `The dataset ${id} was deleted`, param);
  if (!dataset.format) throw unstartable("dataset_error", `The dataset ${id} has no rows`, param);
  return { path: datasetFiles.pathFor(ctx, dataset, number ?? 0), head_row: snapshot.headRow, format: dataset.format };
}

/** `start`: the adapter that training starts from. `model`: the one that the job waits for. */
type BaseModel =
  | { ready: ModelRow; start: ModelRow | null; teacher: ModelRow | null }
  | { waits: string; model: ModelRow };

/** The models of a job as files that can be opened, or what the job waits for. */
export function baseModelOf(ctx: Ctx, job: JobRow): BaseModel {
  const name = job.baseModel ?? "";
  const start = job.startModelId === null ? null : usable(ctx, job, { id: job.startModelId, name });
  if (start && "waits" in start) return start;
  const teacher = job.teacher && usable(ctx, job, { ...job.teacher, param: "/teacher_model" });
  if (teacher && "waits" in teacher) return teacher;
  const base = usable(ctx, job, { id: job.baseModelId ?? name, name });
  return "waits" in base ? base : { ready: base.ready, start: start?.ready ?? null, teacher: teacher?.ready ?? null };
}

type Named = { id: string; name: string; param?: string };

function usable(
  ctx: Ctx,
  job: JobRow,
  { id, name, param = "/base_model" }: Named,
): { ready: ModelRow } | { waits: string; model: ModelRow } {
  const model = models.find(ctx, job.workspaceId, id);
  const use = model ? models.usability(ctx, model) : { never: true, reason: "was deleted" };
  if ("ready" in use) return use;
  if ("waits" in use && model) return { waits: `waits for the model ${name}, which ${use.reason}`, model };
  throw unstartable("provisioning_failed", `The model ${name} ${use.reason}`, param);
}

/** `devices`: of the lease. The process sees only these, numbered from 0. */
export const deviceOf = (ctx: Ctx, devices: readonly number[], ranks = 1) => ({
  data_dir: ctx.config.data_dir,
  threads: Math.max(1, Math.floor((ctx.config.training.threads || availableParallelism() - 1) / ranks)),
  gpus: devices.map((_, i) => i),
});

/** The job's failure for an error on the way to a start. Undefined if the server is at fault. */
export function startFault(error: unknown): JobError | undefined {
  if (error instanceof Unstartable) return error.error;
  if (error instanceof AppError && (error.status < 500 || error.code === "sandbox_unavailable"))
    return { code: "provisioning_failed", message: error.message, param: error.param };
  return undefined;
}
