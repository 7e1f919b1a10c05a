/** Things that a request names: whether they are there, belong to the caller, and fit. */
import { and, eq, isNull } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";
import { isId } from "../../../lib/ids.ts";
import type { Format } from "../../../lib/rows/format.ts";
import { allows } from "../../../lib/scopes.ts";
import type { LoraSettings } from "../../../lib/training/lora.ts";
import * as codeArtifacts from "../../code_artifacts/service.ts";
import * as datasets from "../../datasets/service.ts";
import type { DatasetRow } from "../../datasets/table.ts";
import * as modelResults from "../../models/results.ts";
import * as models from "../../models/service.ts";
import type { ModelRow } from "../../models/table.ts";
import * as secrets from "../../secrets/service.ts";
import * as volumes from "../../volumes/service.ts";
import * as jobs from "../service.ts";
import { type CheckpointRow, type JobRow, trainingCheckpoints } from "../table.ts";
import type { Wanted } from "./clone.ts";
import type { Faults } from "./faults.ts";

const ARCHITECTURES = ["llama", "qwen2", "qwen3"];

/** A model that is here and can be trained. By a job's id: what that job made. */
export function modelFor(ctx: Ctx, workspaceId: string, name: string): ModelRow {
  const model = isId(name, "job") ? modelResults.byJob(ctx, workspaceId, name) : models.find(ctx, workspaceId, name);
  if (!model)
    throw new AppError(
      "resource_not_found",
      `No model ${JSON.stringify(name.slice(0, 120))} here: GET /v1/models shows what there is, and POST /v1/models/pull brings one of the hub`,
      { param: "/base_model" },
    );
  const why = whyUntrainable(ctx, model);
  if (why !== undefined) throw new AppError("schema", `base_model: ${model.name} ${why}`, { param: "/base_model" });
  return model;
}

/** A file that is checked again does not matter here: the job waits for the check before it starts. */
function whyUntrainable(ctx: Ctx, model: ModelRow): string | undefined {
  const use = models.usability(ctx, model);
  if ("never" in use) return use.reason;
  if ("waits" in use && use.waits !== "recheck") return `${use.reason}: try again when it is ready`;
  const shape = models.shapeOf(model);
  if (shape.type === "adapter")
    return "is an adapter: give the model it belongs to, and the checkpoint to begin with as resume_from";
  if (!ARCHITECTURES.includes(shape.architecture))
    return `is of the architecture ${shape.architecture}: ${ARCHITECTURES.join(", ")} can be trained`;
  return undefined;
}

/** The rows that a method can learn from. */
const FORMATS: Record<JobRow["method"], readonly Format[]> = {
  grpo: ["prompt", "chat", "completion"],
  sft: ["completion", "chat"],
  dpo: ["preference"],
  custom: ["prompt", "chat", "completion", "preference"],
};

type Pointer = "/dataset" | "/eval_dataset";

export function datasetFor(ctx: Ctx, workspaceId: string, reference: string, param: Pointer): DatasetRow {
  return datasets.mustGet(ctx, workspaceId, reference.split("@")[0] ?? "", param);
}

/** A connected dataset has no format before it is read: it is asked again afterwards. */
export function mustSuit(method: JobRow["method"], { id, format }: DatasetRow, param: Pointer) {
  if (format === null || FORMATS[method].includes(format)) return;
  const message = `${param.slice(1)}: ${method} learns from rows of the format ${FORMATS[method].join(", ")}; those of ${id} are ${format}`;
  throw new AppError("schema", message, { param });
}

/**
 * A command can print the value of a secret that it is given, so attaching one takes what changing secrets takes. Throws
 * before any name is looked up: the answer does not tell which secrets exist. A clone counts with what it inherits.
 */
export function mayAttachSecrets(scopes: readonly string[], { secrets: names }: Pick<Wanted, "secrets">) {
  if ((names?.length ?? 0) === 0 || allows(scopes, "account", false)) return;
  throw new AppError(
    "missing_scope",
    `secrets: giving secrets to a job takes a key with the scope *, and this one has ${scopes.join(", ")}. Leave them out, in a clone with []`,
    { param: "/secrets" },
  );
}

export function checkKept(ctx: Ctx, workspaceId: string, wanted: Wanted, faults: Faults) {
  for (const [i, name] of (wanted.secrets ?? []).entries())
    faults.attempt(() => secrets.mustGet(ctx, workspaceId, name), { name: `/secrets/${i}` });
  for (const [i, { name, mount_path: path }] of (wanted.volumes ?? []).entries()) {
    faults.attempt(() => volumes.mustGet(ctx, workspaceId, name), { name: `/volumes/${i}/name` });
    const isTaken = wanted.volumes?.some(
      ({ mount_path: other }, j) => j !== i && (other === path ? j < i : path.startsWith(`${other}/`)),
    );
    if (isTaken) faults.refuse(`/volumes/${i}/mount_path`, "must not be, nor lie in, the place of another volume");
  }
  const unused = (["secrets", "volumes"] as const).filter((field) => (wanted[field]?.length ?? 0) > 0);
  if (wanted.method !== "custom")
    for (const field of unused) faults.warn(`/${field}`, `${field}: only a custom job sees them`);
}

/** A custom job is its code; the others have none. */
export function checkCode(ctx: Ctx, workspaceId: string, wanted: Wanted, faults: Faults) {
  const { method, code_artifact_id: code, command } = wanted;
  if (method === "custom") {
    if (!command) faults.refuse("/command", "is missing: a custom job needs a command to run");
    if (!code) faults.refuse("/code_artifact_id", "is missing: upload the code with POST /v1/code_artifacts");
    else faults.attempt(() => codeArtifacts.mustGet(ctx, workspaceId, code), { id: "/code_artifact_id" });
    return;
  }
  if (code) faults.refuse("/code_artifact_id", "goes with the method custom");
  if (command) faults.refuse("/command", "goes with the method custom");
}

export type Start = { checkpoint: CheckpointRow; job: JobRow };

/** The checkpoint that a job begins with. */
export function startOf(ctx: Ctx, workspaceId: string, id: string): Start {
  const here = and(eq(trainingCheckpoints.id, id), eq(trainingCheckpoints.workspaceId, workspaceId));
  const checkpoint = ctx.db
    .select()
    .from(trainingCheckpoints)
    .where(and(here, isNull(trainingCheckpoints.deletedAt)))
    .get();
  const job = checkpoint && jobs.find(ctx, workspaceId, checkpoint.jobId);
  if (!checkpoint || !job)
    throw new AppError("resource_not_found", `No checkpoint ${id.slice(0, 80)}`, { param: "/resume_from" });
  return { checkpoint, job };
}

/** Weights fit only into what they were taken from. */
export function mustContinue({ job }: Start, model: ModelRow, lora: LoraSettings | null) {
  const refuse = (why: string): never => {
    throw new AppError("schema", `resume_from: ${why}`, { param: "/resume_from" });
  };
  if (job.baseModelId !== model.id) refuse(`is of a job that trains ${job.baseModel}, not ${model.name}`);
  const shape = (of: LoraSettings | null) => (of ? { ...of, dropout: 0 } : null);
  if (!Bun.deepEquals(shape(job.lora), shape(lora)))
    refuse(`is of a job with the LoRA settings ${JSON.stringify(job.lora)}: use the same, or leave lora out`);
}
