import { eq } from "drizzle-orm";
import type { Ctx } from "../../context.ts";
import { consumer } from "../../events/consume.ts";
import { events } from "../../events/table.ts";
import { idempotencyKeys } from "../../http/idempotency.ts";
import { nextTurn } from "../../lib/turns.ts";
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

/** In this order. Each is safe to repeat. */
const REMOVALS: readonly ((ctx: Ctx, workspaceId: string) => unknown)[] = [
  monitors.removeAll,
  agents.removeAll,
  responses.removeAll,
  inferenceBatches.removeAll,
  files.removeAll,
  evals.removeAll,
  experiments.removeAll,
  deployments.stopAll,
  detection.removeAll,
  sessions.removeAll,
  trainingJobs.removeAll,
  removeModels,
  annotationQueues.removeAll,
  datasets.removeAll,
  volumes.removeAll,
  codeArtifacts.removeAll,
  rewardFunctions.removeAll,
  evaluators.removeAll,
  settings.removeAll,
  secrets.removeAll,
  regions.removeAll,
  sshKeys.removeAll,
  webhooks.removeAll,
  people.removeAll,
  (ctx) => traces.removeAll(ctx),
];

/**
 * Deletes everything of a deleted workspace except its row, which prune.ts removes later. Deployments, jobs and sessions
 * stop; all stored data and secrets are deleted. The event drives it, so a kill only delays it.
 */
export async function purge(ctx: Ctx) {
  const next = () =>
    take(
      ctx.db,
      ctx.clock.now(),
      (tx, batch) => {
        for (const { workspaceId } of batch)
          tx.delete(idempotencyKeys).where(eq(idempotencyKeys.workspaceId, workspaceId)).run();
        return undefined;
      },
      async (batch) => {
        for (const { workspaceId } of batch)
          for (const remove of REMOVALS) {
            await nextTurn();
            remove(ctx, workspaceId);
          }
      },
    );
  while ((await next()) > 0);
}
