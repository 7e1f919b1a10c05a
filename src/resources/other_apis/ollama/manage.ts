/** Models of Ollama are deployments and agents here: to pull, copy, create or delete one changes those. */
import type { Ctx } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";
import { CreateAgent } from "../../serving/agents/schema.ts";
import * as agents from "../../serving/agents/service.ts";
import { hardwareFor } from "../../serving/deployments/remote/placing.ts";
import { CreateDeployment } from "../../serving/deployments/schema.ts";
import { findListed, isServedName, mustFind } from "../../serving/deployments/served.ts";
import * as deployments from "../../serving/deployments/service.ts";
import * as models from "../../serving/models/service.ts";
import { bringCheckpoint } from "../../training/training_jobs/artifacts/job_models.ts";
import { type Caller, parsedAs } from "../call_model.ts";
import type { OllamaCreate } from "./schema.ts";
import { samplingOf } from "./translate.ts";

const POLL_MS = 500;

/** Ollama adds :latest to a name without a tag. */
export const nameFor = (ctx: Ctx, workspaceId: string, model: string): string =>
  isServedName(ctx, workspaceId, model) ? model : model.replace(/:latest$/, "");

type Choice = { model: string; name: string; source?: "training_job" | "hub"; checkpoint?: string | null };

/** The deployment is parked while it is idle, as Ollama unloads a model. */
async function deploy(ctx: Ctx, { principal }: Caller, choice: Choice) {
  const input = parsedAs(CreateDeployment, { ...choice, min_replicas: 0 });
  const hardware = await hardwareFor(ctx, principal.workspaceId, input);
  const chosen = await bringCheckpoint(ctx, principal.workspaceId, input);
  deployments.create(ctx, principal, { input: { ...input, ...chosen }, place: hardware });
}

type PullStatus = { status: string };

/** Downloads a model and deploys it under the name that was sent. A caller that leaves does not end the download. */
export async function* pull(ctx: Ctx, caller: Caller, model: string): AsyncGenerator<PullStatus> {
  const { workspaceId } = caller.principal;
  const name = nameFor(ctx, workspaceId, model);
  if (isServedName(ctx, workspaceId, name)) return yield { status: "success" };
  const { id } = models.request(ctx, workspaceId, name.replace(/^(?:hf\.co|huggingface\.co)\//, ""), "/model");
  yield { status: "pulling manifest" };
  const signal = AbortSignal.any([caller.request.signal, ctx.closing]);
  for (let last = ""; ; ) {
    const row = models.mustGet(ctx, workspaceId, id);
    if (row.status === "ready") break;
    if (row.status !== "downloading" && row.status !== "pending")
      throw new AppError(
        "worker_failed",
        `The model ${name.slice(0, 120)} was not downloaded: ${row.error ?? row.status}`,
      );
    const status = `pulling ${row.name}: ${Math.round((row.progress ?? 0) * 100)} %`;
    if (status !== last) yield { status };
    last = status;
    await ctx.clock.sleep(POLL_MS, signal);
    signal.throwIfAborted();
  }
  if (!findListed(ctx, workspaceId, name)) await deploy(ctx, caller, { model: id, name });
  yield { status: "success" };
}

/** The second name is a deployment of the same model, or an agent with the same fields. */
export async function copy(ctx: Ctx, caller: Caller, source: string, destination: string) {
  const { workspaceId } = caller.principal;
  const from = nameFor(ctx, workspaceId, source);
  const name = destination.replace(/:latest$/, "");
  const agent = isServedName(ctx, workspaceId, from) ? undefined : agents.find(ctx, workspaceId, from);
  if (agent) {
    const { deployment, systemPrompt: system_prompt, tools, sampling } = agent;
    const fields = { name, deployment, system_prompt, tools, sampling } as Parameters<typeof CreateAgent.parse>[0];
    return void agents.create(ctx, workspaceId, parsedAs(CreateAgent, fields as never));
  }
  const { model, source: kind, checkpoint } = mustFind(ctx, workspaceId, from);
  await deploy(ctx, caller, { model, name, source: kind, checkpoint });
}

/** With a prompt or parameters the new model is an agent of a deployment. Otherwise it is a deployment. */
export async function create(ctx: Ctx, caller: Caller, { model, from, system, parameters }: OllamaCreate) {
  const { workspaceId } = caller.principal;
  const name = model.replace(/:latest$/, "");
  const source = nameFor(ctx, workspaceId, from);
  if (!system && !parameters) {
    if (isServedName(ctx, workspaceId, source)) return copy(ctx, caller, source, name);
    return deploy(ctx, caller, { model: source, name });
  }
  const { max_tokens: limit, ...rest } = samplingOf(parameters);
  const fields = Object.entries({ ...rest, max_completion_tokens: limit && limit > 0 ? limit : undefined });
  const sampling = Object.fromEntries(fields.filter(([, value]) => value !== undefined && value !== null));
  const deployment = mustFind(ctx, workspaceId, source).name;
  agents.create(ctx, workspaceId, parsedAs(CreateAgent, { name, deployment, system_prompt: system ?? null, sampling }));
}

/** Stops the deployment, or deletes the newest version of the agent. The file of the model stays in the registry. */
export function remove(ctx: Ctx, { principal: { workspaceId } }: Caller, model: string) {
  const name = nameFor(ctx, workspaceId, model);
  const agent = isServedName(ctx, workspaceId, name) ? undefined : agents.find(ctx, workspaceId, name);
  if (agent) agents.remove(ctx, workspaceId, agent.id);
  else deployments.stop(ctx, workspaceId, mustFind(ctx, workspaceId, name).id);
}
