import { eq } from "drizzle-orm";
import type { Ctx } from "./context.ts";
import { consumer } from "./events/consume.ts";
import { events } from "./events/table.ts";
import { idempotencyKeys } from "./http/idempotency.ts";
import { nextTurn } from "./lib/turns.ts";
import * as people from "./resources/access/people/service.ts";
import * as secrets from "./resources/access/secrets/service.ts";
import * as sshKeys from "./resources/access/ssh_keys/service.ts";
import * as datasets from "./resources/data/datasets/service.ts";
import * as volumes from "./resources/data/volumes/service.ts";
import * as detection from "./resources/detection/service.ts";
import * as regions from "./resources/machines/regions/service.ts";
import * as sessions from "./resources/machines/sessions/service.ts";
import * as inferenceBatches from "./resources/other_apis/batches/service.ts";
import * as completions from "./resources/other_apis/completions/service.ts";
import * as conversations from "./resources/other_apis/conversations/prune.ts";
import * as evals from "./resources/other_apis/evals/service.ts";
import * as files from "./resources/other_apis/files/service.ts";
import * as responses from "./resources/other_apis/responses/service.ts";
import * as vectorStores from "./resources/other_apis/vector_stores/prune.ts";
import * as annotationQueues from "./resources/quality/annotation_queues/service.ts";
import * as evaluators from "./resources/quality/evaluators/service.ts";
import * as experiments from "./resources/quality/experiments/service.ts";
import * as agents from "./resources/serving/agents/service.ts";
import * as prefixes from "./resources/serving/deployments/prefixes/blocks.ts";
import * as deployments from "./resources/serving/deployments/service.ts";
import { removeAll as removeModels } from "./resources/serving/models/remove.ts";
import * as rollouts from "./resources/serving/rollouts/service.ts";
import * as codeArtifacts from "./resources/training/code_artifacts/service.ts";
import * as hubPushes from "./resources/training/hub_pushes/service.ts";
import * as rewardFunctions from "./resources/training/reward_functions/service.ts";
import * as settings from "./resources/training/tracker/service.ts";
import * as trainingJobs from "./resources/training/training_jobs/service.ts";
import * as monitors from "./resources/watching/monitors/service.ts";
import * as traces from "./resources/watching/traces/service.ts";
import * as webhooks from "./resources/watching/webhooks/service.ts";

const take = consumer("workspaces.purge", { wanted: eq(events.type, "workspace.deleted") });

/** In this order. Each is safe to repeat. */
const REMOVALS: readonly ((ctx: Ctx, workspaceId: string) => unknown)[] = [
  monitors.removeAll,
  agents.removeAll,
  rollouts.removeAll,
  responses.removeAll,
  conversations.removeAll,
  completions.removeAll,
  inferenceBatches.removeAll,
  vectorStores.removeAll,
  files.removeAll,
  evals.removeAll,
  experiments.removeAll,
  deployments.stopAll,
  prefixes.removeAll,
  detection.removeAll,
  sessions.removeAll,
  hubPushes.removeAll,
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
            await remove(ctx, workspaceId);
          }
      },
    );
  while ((await next()) > 0);
}
