import { eq } from "drizzle-orm";
import type { Ctx } from "../../context.ts";
import { consumer } from "../../events/consume.ts";
import { events } from "../../events/table.ts";
import { idempotencyKeys } from "../../http/idempotency.ts";
import * as agents from "../agents/service.ts";
import * as annotationQueues from "../annotation_queues/service.ts";
import * as inferenceBatches from "../clients/batches/service.ts";
import * as evals from "../clients/evals/service.ts";
import * as files from "../clients/files/service.ts";
import * as responses from "../clients/responses/service.ts";
import * as codeArtifacts from "../code_artifacts/service.ts";
import * as datasets from "../datasets/service.ts";
import * as deployments from "../deployments/service.ts";
import * as detection from "../detection/service.ts";
import * as evaluators from "../evaluators/service.ts";
import * as experiments from "../experiments/service.ts";
import { removeAll as removeModels } from "../models/remove.ts";
import * as monitors from "../monitors/service.ts";
import * as people from "../people/service.ts";
import * as regions from "../regions/service.ts";
import * as rewardFunctions from "../reward_functions/service.ts";
import * as secrets from "../secrets/service.ts";
import * as sessions from "../sessions/service.ts";
import * as sshKeys from "../ssh_keys/service.ts";
import * as traces from "../traces/service.ts";
import * as settings from "../tracker/service.ts";
import * as trainingJobs from "../training_jobs/service.ts";
import * as volumes from "../volumes/service.ts";
import * as webhooks from "../webhooks/service.ts";

const take = consumer("workspaces.purge", { wanted: eq(events.type, "workspace.deleted") });

/**
 * Deletes everything of a deleted workspace except its row, which prune.ts removes later. Deployments, jobs and sessions
 * stop; all stored data and secrets are deleted. The event drives it, so a kill only delays it.
 */
export async function purge(ctx: Ctx) {
  const next = () =>
    take(ctx.db, ctx.clock.now(), (tx, batch) => {
      for (const { workspaceId } of batch) {
        monitors.removeAll(ctx, workspaceId);
        agents.removeAll(ctx, workspaceId);
        responses.removeAll(ctx, workspaceId);
        inferenceBatches.removeAll(ctx, workspaceId);
        files.removeAll(ctx, workspaceId);
        evals.removeAll(ctx, workspaceId);
        experiments.removeAll(ctx, workspaceId);
        deployments.stopAll(ctx, workspaceId);
        detection.removeAll(ctx, workspaceId);
        sessions.removeAll(ctx, workspaceId);
        trainingJobs.removeAll(ctx, workspaceId);
        removeModels(ctx, workspaceId);
        annotationQueues.removeAll(ctx, workspaceId);
        datasets.removeAll(ctx, workspaceId);
        volumes.removeAll(ctx, workspaceId);
        codeArtifacts.removeAll(ctx, workspaceId);
        rewardFunctions.removeAll(ctx, workspaceId);
        evaluators.removeAll(ctx, workspaceId);
        settings.removeAll(ctx, workspaceId);
        secrets.removeAll(ctx, workspaceId);
        regions.removeAll(ctx, workspaceId);
        sshKeys.removeAll(ctx, workspaceId);
        webhooks.removeAll(ctx, workspaceId);
        people.removeAll(ctx, workspaceId);
        traces.removeAll(ctx);
        tx.delete(idempotencyKeys).where(eq(idempotencyKeys.workspaceId, workspaceId)).run();
      }
    });
  while ((await next()) > 0);
}
