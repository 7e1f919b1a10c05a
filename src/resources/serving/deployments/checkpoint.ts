/** A checkpoint of a training job as the `model` of a request: an adapter beside the job's deployment, or its own deployment. */
import { and, eq, inArray, or } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { ACTIVE } from "../../../lib/deployment_status.ts";
import { AppError } from "../../../lib/errors.ts";
import { isId } from "../../../lib/ids.ts";
import { bringCheckpoint } from "../../training/training_jobs/artifacts/job_models.ts";
import * as modelResults from "../models/results.ts";
import { deployments } from "./table.ts";

const IN_REQUEST = { model: "/model", checkpoint: "/model" };

/** The body with the deployment and the adapter that answer for its checkpoint. Other bodies stay as they are. */
export async function withCheckpoint<B extends { model?: string | undefined }>(
  ctx: Ctx,
  workspaceId: string,
  body: B,
): Promise<B> {
  const id = body.model;
  if (id === undefined || !isId(id, "ckpt")) return body;
  const { model: jobId } = await bringCheckpoint(ctx, workspaceId, { model: id, checkpoint: null }, IN_REQUEST);
  const rows = ctx.db
    .select({ name: deployments.name, checkpoint: deployments.checkpoint })
    .from(deployments)
    .where(
      and(
        eq(deployments.workspaceId, workspaceId),
        inArray(deployments.status, ACTIVE),
        or(eq(deployments.checkpoint, id), eq(deployments.model, jobId)),
      ),
    )
    .all();
  const own = rows.find(({ checkpoint }) => checkpoint === id);
  if (own) return { ...body, model: own.name };
  const adapter = modelResults.byCheckpoint(ctx, workspaceId, id);
  const beside = rows[0];
  if (beside && adapter?.shape?.type === "adapter") return { ...body, model: `${beside.name}:${adapter.name}` };
  const message = `model: no active deployment serves the checkpoint ${id}. Deploy it with POST /v1/deployments {"model": "${id}"}`;
  throw new AppError("resource_not_found", message, { param: "/model" });
}
