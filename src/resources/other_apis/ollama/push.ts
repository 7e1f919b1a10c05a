/** Pushes a model to the hub and reports the steps as Ollama does. A registry of Ollama is a repository of the hub here. */
import type { Ctx } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";
import { isServedName, mustFind } from "../../serving/deployments/served.ts";
import { CreatePush } from "../../training/hub_pushes/schema.ts";
import * as pushes from "../../training/hub_pushes/service.ts";
import type { PushRow } from "../../training/hub_pushes/table.ts";
import { HubRepo } from "../../training/training_jobs/schema.ts";
import { type Caller, parsedAs } from "../call_model.ts";
import { nameFor } from "./manage.ts";

const POLL_MS = 500;

type PushStatus = { status: string; total?: number; completed?: number };

/** `model`: owner/name is both the name here and the repository. A caller that leaves does not end the push. */
export async function* push(ctx: Ctx, caller: Caller, model: string): AsyncGenerator<PushStatus> {
  const { workspaceId } = caller.principal;
  const { id, repo } = begin(ctx, workspaceId, model);
  yield { status: "retrieving manifest" };
  const signal = AbortSignal.any([caller.request.signal, ctx.closing]);
  for (let last = ""; ; ) {
    const row = pushes.mustGet(ctx, workspaceId, id);
    if (row.status === "completed") break;
    if (row.completedAt !== null)
      throw new AppError("worker_failed", `${repo} was not pushed: ${row.error ?? row.status}`);
    const status = statusOf(row);
    const text = JSON.stringify(status);
    if (text !== last) yield status;
    last = text;
    await ctx.clock.sleep(POLL_MS, signal);
    signal.throwIfAborted();
  }
  yield { status: "success" };
}

const statusOf = ({ repo, status, bytesTotal: total, bytesDone }: PushRow): PushStatus =>
  status === "preparing" || total === 0
    ? { status: `preparing ${repo}` }
    : { status: `pushing ${repo}`, total, completed: Math.min(total, bytesDone) };

function begin(ctx: Ctx, workspaceId: string, model: string): PushRow {
  const repo = model.replace(/:latest$/, "");
  if (!HubRepo.safeParse(repo).success) {
    const message = `model: must be owner/name, which is the repository on the hub. Copy ${repo.slice(0, 100)} to such a name first`;
    throw new AppError("schema", message, { param: "/model" });
  }
  const name = nameFor(ctx, workspaceId, model);
  const served = isServedName(ctx, workspaceId, name) ? mustFind(ctx, workspaceId, name) : undefined;
  const checkpoint = served?.checkpoint ?? undefined;
  return pushes.create(ctx, workspaceId, served?.model ?? name, parsedAs(CreatePush, { repo, checkpoint }));
}
