/**
 * A checkpoint or the result of a training job as the `model` of a request. Its own deployment answers, or as an adapter
 * any deployment of its base model.
 */
import { and, asc, eq, inArray } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { ACTIVE } from "../../../lib/deployment_status.ts";
import { AppError } from "../../../lib/errors.ts";
import { isId } from "../../../lib/ids.ts";
import { bringCheckpoint, type JobModel, resultOf } from "../../training/training_jobs/artifacts/job_models.ts";
import { adaptsFor } from "./chat/loras.ts";
import { isAdapter } from "./fleet/parts.ts";
import { type DeploymentRow, deployments } from "./table.ts";

const IN_REQUEST = { model: "/model", checkpoint: "/model" };
const MOST = 1_000; // deployments in one search

/** The body with the deployment and the adapter that answer for its checkpoint or job. Other bodies stay as they are. */
export async function withCheckpoint<B extends { model?: string | undefined }>(
  ctx: Ctx,
  workspaceId: string,
  body: B,
): Promise<B> {
  const id = body.model;
  if (id === undefined || !(isId(id, "ckpt") || isId(id, "job"))) return body;
  const named = await bringCheckpoint(ctx, workspaceId, { model: id, checkpoint: null }, IN_REQUEST);
  const rows = activeOf(ctx, workspaceId);
  const own = rows.find(({ model, checkpoint }) => model === named.model && checkpoint === named.checkpoint);
  if (own) return { ...body, model: own.name };
  const beside = besideOthers(ctx, workspaceId, { named, rows });
  if (beside) return { ...body, model: beside };
  const what = isId(id, "ckpt") ? "checkpoint" : "result of";
  const message = `model: no active deployment serves the ${what} ${id}. Deploy it with POST /v1/deployments {"model": "${id}"}`;
  throw new AppError("resource_not_found", message, { param: "/model" });
}

/** Deployments that answer now come first. */
function activeOf({ db }: Ctx, workspaceId: string): DeploymentRow[] {
  const active = and(
    eq(deployments.workspaceId, workspaceId),
    eq(deployments.internal, false),
    inArray(deployments.status, ACTIVE),
  );
  const rows = db.select().from(deployments).where(active).orderBy(asc(deployments.id)).limit(MOST).all();
  const answers = ({ status, parked }: DeploymentRow) => status === "serving" && !parked;
  return [...rows.filter(answers), ...rows.filter((row) => !answers(row))];
}

type Beside = { named: JobModel; rows: readonly DeploymentRow[] };

/** `deployment:adapter` of a deployment of the same job, or of any with the base model. Undefined: there is none. */
function besideOthers(ctx: Ctx, workspaceId: string, { named, rows }: Beside): string | undefined {
  if (rows.length === 0) return undefined;
  const adapter = resultOf(ctx, workspaceId, named, IN_REQUEST);
  if (!isAdapter(adapter)) return undefined;
  const fits = adaptsFor(ctx, workspaceId, adapter);
  const row = rows.find(({ model }) => model === named.model) ?? rows.find(fits);
  return row && `${row.name}:${adapter.name.includes(":") ? adapter.id : adapter.name}`;
}
