/** Checks that the things a request names exist, belong to the caller's workspace, and fit. */
import { and, eq, isNull } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { AppError } from "../../../../lib/errors.ts";
import { ARCHITECTURES } from "../../../../lib/gguf/architecture.ts";
import type { Format } from "../../../../lib/rows/format.ts";
import { allows } from "../../../../lib/scopes.ts";
import type { LoraSettings } from "../../../../lib/training/lora.ts";
import * as secrets from "../../../access/secrets/service.ts";
import * as datasets from "../../../data/datasets/service.ts";
import type { DatasetRow } from "../../../data/datasets/table.ts";
import * as volumes from "../../../data/volumes/service.ts";
import * as models from "../../../serving/models/service.ts";
import type { ModelRow } from "../../../serving/models/table.ts";
import * as codeArtifacts from "../../code_artifacts/service.ts";
import { find } from "../state/rows.ts";
import { type CheckpointRow, type JobRow, trainingCheckpoints } from "../table.ts";
import type { JobRequest } from "./clone.ts";
import type { Faults } from "./faults.ts";

/** The model, if it can be trained now or after its download. A model that is not here yet has no shape. */
export function trainable(ctx: Ctx, model: ModelRow): ModelRow {
  const why = whyUntrainable(ctx, model);
  if (why !== undefined) throw new AppError("schema", `base_model: ${model.name} ${why}`, { param: "/base_model" });
  return model;
}

function whyUntrainable(ctx: Ctx, model: ModelRow): string | undefined {
  const use = models.usability(ctx, model);
  if ("never" in use) return use.reason;
  const { shape } = model;
  if (shape && !ARCHITECTURES.some((architecture) => architecture === shape.architecture))
    return `has the architecture ${shape.architecture}, which is only served; ${ARCHITECTURES.join(", ")} can be trained`;
  return undefined;
}

/** The teacher of a student. Null for other methods. */
export function teacherOf(
  ctx: Ctx,
  workspaceId: string,
  { method, teacher_model: name }: JobRequest,
  student: ModelRow | null | undefined,
): ModelRow | null {
  const param = "/teacher_model";
  const refuse = (why: string): never => {
    throw new AppError("schema", `teacher_model: ${why}`, { param });
  };
  if (method !== "distill") {
    if (name) refuse("is only for the method distill: leave it out");
    return null;
  }
  if (!name) return refuse("is missing: name the model that the student learns from");
  const model = models.find(ctx, workspaceId, name);
  if (!model)
    throw new AppError(
      "resource_not_found",
      `No model ${JSON.stringify(name.slice(0, 120))} on this server: pull it first`,
      {
        param,
      },
    );
  if (model.shape?.type === "adapter") refuse(`${model.name} is an adapter: export it as a merged model first`);
  const why = whyUntrainable(ctx, model);
  if (why !== undefined) refuse(`${model.name} ${why}`);
  const [tokens, own] = [model.shape?.vocab_size, student?.shape?.vocab_size];
  if (tokens !== undefined && own !== undefined && tokens !== own)
    refuse(`${model.name} has ${tokens} tokens, and ${student?.name} has ${own}. Choose a teacher of its family`);
  return model;
}

/** Row formats that a method can train on. */
export const FORMATS: Record<JobRow["method"], readonly Format[]> = {
  grpo: ["prompt", "chat", "completion"],
  sft: ["completion", "chat"],
  dpo: ["preference"],
  rloo: ["prompt", "chat", "completion"],
  distill: ["prompt", "chat", "completion"],
  kto: ["completion"],
  orpo: ["preference"],
  custom: ["prompt", "chat", "completion", "preference"],
};

type Pointer = "/dataset" | "/eval_dataset";

const ID = /^ds_[0-9a-z]{26}(@.*)?$/;
const SNAPSHOT = /@(latest|snap-[1-9]\d{0,8})$/;

/** Turns a name into an id. The snapshot after an @ stays. */
export function datasetById(ctx: Ctx, workspaceId: string, reference: string, param: Pointer): string {
  const [snapshot = ""] = SNAPSHOT.exec(reference) ?? [];
  const name = reference.slice(0, reference.length - snapshot.length);
  if (ID.test(reference) && !name.includes("@")) return reference;
  const [row, other] = datasets.byName(ctx, workspaceId, name);
  const shown = JSON.stringify(name.slice(0, 120));
  if (row && other)
    throw new AppError(
      "schema",
      `${param.slice(1)}: several datasets have the name ${shown}: give the id of one, such as ${row.id}`,
      { param },
    );
  if (row) return `${row.id}${snapshot}`;
  throw new AppError(
    "resource_not_found",
    `No dataset ${shown}: give the id or the name of one, alone or with a snapshot, such as ${name.includes("@") ? "ds_…" : name.slice(0, 60)}@snap-3. See GET /v1/datasets`,
    { param },
  );
}

export function datasetFor(ctx: Ctx, workspaceId: string, reference: string, param: Pointer): DatasetRow {
  return datasets.mustGet(ctx, workspaceId, reference.split("@")[0] ?? "", param);
}

/** A connected dataset has no format before it is read. The check is repeated afterwards. */
export function mustSuit(method: JobRow["method"], { name, format }: DatasetRow, param: Pointer) {
  if (format === null || FORMATS[method].includes(format)) return;
  const message = `${param.slice(1)}: ${method} needs rows of the format ${FORMATS[method].join(" or ")}; the rows of ${name} are ${format}`;
  throw new AppError("schema", message, { param });
}

/**
 * A command can print the value of its secrets, so attaching a secret needs the same scope as changing it. The check
 * comes before any look-up, so the answer does not reveal which secrets exist. Inherited secrets of a clone count too.
 */
export function mayAttachSecrets(scopes: readonly string[], { secrets: names }: Pick<JobRequest, "secrets">) {
  if ((names?.length ?? 0) === 0 || allows(scopes, "account", false)) return;
  throw new AppError(
    "missing_scope",
    `secrets: needs a key with the scope *, and this key has ${scopes.join(", ")}. Leave secrets out; in a clone, send []`,
    { param: "/secrets" },
  );
}

export function checkSecretsAndVolumes(ctx: Ctx, workspaceId: string, request: JobRequest, faults: Faults) {
  for (const [i, name] of (request.secrets ?? []).entries()) {
    const row = faults.attempt(() => secrets.mustGet(ctx, workspaceId, name), { name: `/secrets/${i}` });
    if (row && row.scopeHost !== null)
      faults.refuse(
        `/secrets/${i}`,
        `${name} may only be sent to ${row.scopeHost} (scope_host), and a command could send it elsewhere: use a secret without scope_host`,
      );
  }
  for (const [i, { name, mount_path: path }] of (request.volumes ?? []).entries()) {
    faults.attempt(() => volumes.mustGet(ctx, workspaceId, name), { name: `/volumes/${i}/name` });
    const isTaken = request.volumes?.some(
      ({ mount_path: other }, j) => j !== i && (other === path ? j < i : path.startsWith(`${other}/`)),
    );
    if (isTaken)
      faults.refuse(`/volumes/${i}/mount_path`, "must not be the mount_path of another volume, nor lie inside it");
  }
}

/** Custom jobs need code and a command; other jobs must not have them. */
export function checkCode(ctx: Ctx, workspaceId: string, request: JobRequest, faults: Faults) {
  const { method, code_artifact_id: code, command } = request;
  if (method === "custom") {
    if (!command) faults.refuse("/command", "is missing: a custom job needs a command");
    if (!code) faults.refuse("/code_artifact_id", "is missing: upload the code with POST /v1/code_artifacts");
    else faults.attempt(() => codeArtifacts.mustGet(ctx, workspaceId, code), { id: "/code_artifact_id" });
    return;
  }
  if (code) faults.refuse("/code_artifact_id", "is only for the method custom: leave it out");
  if (command) faults.refuse("/command", "is only for the method custom: leave it out");
}

export type StartCheckpoint = { checkpoint: CheckpointRow; job: JobRow };

export function startOf(ctx: Ctx, workspaceId: string, id: string): StartCheckpoint {
  const isOwn = and(eq(trainingCheckpoints.id, id), eq(trainingCheckpoints.workspaceId, workspaceId));
  const checkpoint = ctx.db
    .select()
    .from(trainingCheckpoints)
    .where(and(isOwn, isNull(trainingCheckpoints.deletedAt)))
    .get();
  const job = checkpoint && find(ctx, workspaceId, checkpoint.jobId);
  if (!checkpoint || !job)
    throw new AppError("resource_not_found", `No checkpoint ${id.slice(0, 80)}`, { param: "/resume_from" });
  return { checkpoint, job };
}

/** Weights fit only the same base model with the same LoRA settings. */
export function mustContinue({ job }: StartCheckpoint, model: ModelRow | null, lora: LoraSettings | null) {
  const refuse = (why: string): never => {
    throw new AppError("schema", `resume_from: ${why}`, { param: "/resume_from" });
  };
  if (job.baseModelId !== model?.id) refuse(`its job trains ${job.baseModel}, not ${model?.name ?? "this base_model"}`);
  const shape = (of: LoraSettings | null) => (of ? { ...of, dropout: 0 } : null);
  if (!Bun.deepEquals(shape(job.lora), shape(lora)))
    refuse(`its job has the LoRA settings ${JSON.stringify(job.lora)}: use the same, or leave lora out`);
}
