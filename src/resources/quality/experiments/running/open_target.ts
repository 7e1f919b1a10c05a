/** Finds or creates the deployment that answers for a target. */
import { eq } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { durable, write } from "../../../../platform/db/db.ts";
import { prepareTemporary } from "../../../serving/deployments/temporary.ts";
import { link } from "../links.ts";
import { current } from "../service.ts";
import { type ExperimentRow, experiments } from "../table.ts";

/**
 * The id of the deployment; null for recorded outputs. A temporary deployment and its id in the experiment are one
 * commit, so a kill leaves no deployment that no experiment stops.
 */
export async function openTarget(ctx: Ctx, row: ExperimentRow, index: number): Promise<string | null> {
  const target = (current(ctx, row.id) ?? row).targets[index];
  if (!target || target.type === "outputs") return null;
  if (target.deploymentId !== null) return target.deploymentId;
  const create = await prepareTemporary(ctx, {
    workspaceId: row.workspaceId,
    keyId: row.apiKeyId ?? "",
    model: target.jobId ?? target.model ?? "",
    checkpoint: target.checkpointId,
    name: `${row.id}-${index}`,
    metadata: { experiment_id: row.id, target: target.name },
  });
  const id = write(ctx.db, (tx) => {
    const fresh = tx.select().from(experiments).where(eq(experiments.id, row.id)).get();
    if (fresh?.status !== "running") throw new Error(`experiment ${row.id} has ended`);
    const made = create();
    const targets = fresh.targets.map((each, i) => (i === index ? { ...each, deploymentId: made.id } : each));
    tx.update(experiments).set({ targets, updatedAt: ctx.clock.now() }).where(eq(experiments.id, row.id)).run();
    link(tx, { ...fresh, targets });
    return made.id;
  });
  await durable(ctx.db);
  return id;
}
