/**
 * Finds the model that a job starts from: a model of the registry, a result or a checkpoint of another job, a file in the
 * models folder, or a model of the hub. An adapter is continued on its base model, or merged into it first.
 */
import type { Ctx } from "../../../../context.ts";
import { AppError } from "../../../../lib/errors.ts";
import { isId } from "../../../../lib/ids.ts";
import { ALL_LINEAR, type LoraSettings, type Module } from "../../../../lib/training/lora.ts";
import { sha256File } from "../../../../platform/files.ts";
import * as modelResults from "../../../serving/models/results.ts";
import * as models from "../../../serving/models/service.ts";
import type { ModelRow } from "../../../serving/models/table.ts";
import { requestModel, servedModelOf } from "../artifacts/exports.ts";
import { asJob, bringCheckpoint, resultOf } from "../artifacts/job_models.ts";
import { keptCheckpoints } from "../state/checkpoint_files.ts";
import { find } from "../state/rows.ts";
import type { JobRow } from "../table.ts";
import { trainable } from "./references.ts";

const PARAM = "/base_model";
const PARAMS = { model: PARAM, checkpoint: PARAM };

/** The model that a request names. `lora`: the settings of an adapter; undefined if they are unknown. */
export type Origin =
  | { kind: "model"; model: ModelRow }
  | { kind: "adapter"; adapter: ModelRow; base: ModelRow; lora: LoraSettings | undefined }
  | { kind: "absent"; why: string; fetch: () => ModelRow };

/** `start`: the adapter that training starts from. `model` null: `fetch` makes its row, and the job waits for its file. */
export type Base = { model: ModelRow; fetch: null; start: ModelRow | null } | Absent;
type Absent = { model: null; fetch: () => ModelRow; start: null; why: string };

/** `dry`: nothing is made. A checkpoint that is not a model yet is then absent, like a model of the hub. */
export async function originOf(ctx: Ctx, workspaceId: string, name: string, dry: boolean): Promise<Origin> {
  const reference = { model: name, checkpoint: null };
  const named = asJob(ctx, workspaceId, reference, PARAMS);
  if (isId(named.model, "job")) {
    if (!dry) await bringCheckpoint(ctx, workspaceId, reference, PARAMS);
    else if (named.checkpoint !== null && !isModel(ctx, workspaceId, named.checkpoint))
      return { kind: "absent", why: "is made a model first", fetch: () => resultOf(ctx, workspaceId, named, PARAMS) };
    return ofModel(ctx, workspaceId, resultOf(ctx, workspaceId, named, PARAMS));
  }
  const model = models.findOrDownloadable(ctx, workspaceId, name, PARAM);
  if (model) return ofModel(ctx, workspaceId, model);
  return { kind: "absent", why: "is downloaded first", fetch: () => models.request(ctx, workspaceId, name, PARAM) };
}

const isModel = (ctx: Ctx, workspaceId: string, checkpoint: string) =>
  modelResults.byCheckpoint(ctx, workspaceId, checkpoint) ?? servedModelOf(ctx, workspaceId, checkpoint);

function ofModel(ctx: Ctx, workspaceId: string, model: ModelRow): Origin {
  if (model.shape?.type !== "adapter") return { kind: "model", model: trainable(ctx, model) };
  const base = models.baseOf(ctx, workspaceId, model);
  const refuse = (why: string): never => {
    throw new AppError("schema", `base_model: ${model.name} is an adapter, and ${why}`, { param: PARAM });
  };
  const use = models.usability(ctx, model);
  if ("never" in use) return refuse(`it ${use.reason}`);
  if (!base) return refuse("its base model is not on this server: pull or import the base model first");
  if (base.shape?.type === "adapter") return refuse(`${base.name}, its base model, is an adapter too: merge it first`);
  if (base.architecture !== null && base.architecture !== model.architecture)
    return refuse(
      `it fits ${model.architecture} models, and its base model ${base.name} is a ${base.architecture} model`,
    );
  return { kind: "adapter", adapter: model, base: trainable(ctx, base), lora: settingsOf(ctx, workspaceId, model) };
}

/** A job knows its settings. A file has rank, alpha and targets only, which give the same model. */
function settingsOf(ctx: Ctx, workspaceId: string, { jobId, shape }: ModelRow): LoraSettings | undefined {
  const job = jobId === null ? undefined : find(ctx, workspaceId, jobId);
  if (job?.lora) return { ...job.lora, dropout: 0 };
  if (!shape?.lora) return undefined;
  const { r, alpha, target_modules } = shape.lora;
  const modules = ALL_LINEAR.filter((each) => target_modules.includes(each));
  if (modules.length !== target_modules.length) return undefined;
  return { r, alpha, dropout: 0, target_modules: modules as Module[], use_rslora: false };
}

/** An adapter with the same rank and targets is trained further. Any other is merged into its base model first. */
export function baseFor(ctx: Ctx, workspaceId: string, origin: Origin, lora: LoraSettings | null): Base {
  if (origin.kind === "absent") return { model: null, fetch: origin.fetch, start: null, why: origin.why };
  if (origin.kind === "model") return { model: origin.model, fetch: null, start: null };
  const { adapter, base } = origin;
  if (lora && origin.lora && hasSameShape(lora, origin.lora)) return { model: base, fetch: null, start: adapter };
  return merged(ctx, workspaceId, adapter, origin.lora);
}

const hasSameShape = (a: LoraSettings, b: LoraSettings) =>
  a.r === b.r && Bun.deepEquals([...a.target_modules].sort(), [...b.target_modules].sort());

function merged(ctx: Ctx, workspaceId: string, adapter: ModelRow, lora: LoraSettings | undefined): Base {
  const job = adapter.jobId === null ? undefined : find(ctx, workspaceId, adapter.jobId);
  const kept = job && keptCheckpoints(ctx.db, job.id).find(({ id }) => id === adapter.checkpointId);
  const servedModel = adapter.checkpointId === null ? undefined : servedModelOf(ctx, workspaceId, adapter.checkpointId);
  if (servedModel && servedModel.status !== "failed" && servedModel.status !== "missing")
    return { model: servedModel, fetch: null, start: null };
  if (!job || !kept) {
    const advice = lora
      ? `use its LoRA settings (r ${lora.r}, target_modules ${lora.target_modules.join(", ")}), or leave lora out`
      : "its LoRA settings are unknown: import the merged model instead";
    const message = `lora: differs from the adapter ${adapter.name}, whose checkpoint is not here to be merged: ${advice}`;
    throw new AppError("schema", message, { param: "/lora" });
  }
  const fetch = () => {
    requestModel(ctx, job, kept);
    return servedModelOf(ctx, workspaceId, kept.id) as ModelRow; // the row exists at once
  };
  return { model: null, fetch, start: null, why: "is merged into its base model first" };
}

/** A job that goes on from a checkpoint has the reference of the checkpoint's job: the adapter that it started from. */
export function withReference(ctx: Ctx, workspaceId: string, base: Base, { startModelId }: JobRow): Base {
  if (base.model === null || startModelId === null) return base;
  const start = models.find(ctx, workspaceId, startModelId);
  if (start) return { ...base, start };
  const why = "the adapter that its job started from was deleted: name the checkpoint as base_model instead";
  throw new AppError("schema", `resume_from: ${why}`, { param: "/resume_from" });
}

/** A file that was just put into the models folder may not have been hashed yet. Null without a file. */
export async function hashOf(ctx: Ctx, model: ModelRow | null | undefined): Promise<string | null> {
  if (!model || (model.sha256 === null && model.status !== "ready")) return null;
  return model.sha256 ?? (await sha256File(models.pathOf(ctx, model)));
}
