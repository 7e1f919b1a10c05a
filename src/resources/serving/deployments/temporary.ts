/** Deployments that another resource creates for its own work, and stops. They are in no list of a user. */
import type { Ctx } from "../../../context.ts";
import { bringCheckpoint } from "../../training/training_jobs/artifacts/job_models.ts";
import { hardwareFor } from "./remote/placing.ts";
import { CreateDeployment } from "./schema.ts";
import { create } from "./service.ts";
import type { DeploymentRow } from "./table.ts";

type Temporary = {
  workspaceId: string;
  /** The key that pays. */
  keyId: string;
  /** A training job or the name of a model. */
  model: string;
  checkpoint: string | null;
  name: string;
  metadata: Record<string, string>;
};

/**
 * Does everything that takes time. The function that it returns creates the deployment in the commit of the caller. The
 * deployment waits for memory without a limit, and is parked when it is idle.
 */
export async function prepareTemporary(ctx: Ctx, wanted: Temporary): Promise<() => DeploymentRow> {
  const { workspaceId, keyId, model, checkpoint, name, metadata } = wanted;
  const input = CreateDeployment.parse({
    model,
    checkpoint,
    name,
    metadata,
    min_replicas: 0,
    max_replicas: 1,
    idle_timeout_seconds: 60,
    queue_timeout_seconds: 0,
  });
  const hardware = await hardwareFor(ctx, workspaceId, input);
  const chosen = await bringCheckpoint(ctx, workspaceId, input);
  const creation = { input: { ...input, ...chosen }, place: hardware, internal: true };
  return () => create(ctx, { workspaceId, keyId }, creation);
}
