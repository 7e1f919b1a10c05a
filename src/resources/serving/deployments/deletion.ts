/** Deletes a deployment that has ended, with its recorded requests. Its charges stay in the ledger. */
import { eq, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";
import { type Tx, write } from "../../../platform/db/db.ts";
import { gradually } from "../../../platform/db/gradually.ts";
import { forget } from "./fleet/fleet.ts";
import { emitChange } from "./machine.ts";
import { mustGet } from "./service.ts";
import { type DeploymentRow, deploymentRequests, deployments } from "./table.ts";

const POLL_MS = 20;
const ENDING_MS = 15_000; // its processes end in less

/** The pruning of traces removes the traces of a deployment without a row. */
export async function remove(ctx: Ctx, workspaceId: string, id: string): Promise<DeploymentRow> {
  mustBeOver(mustGet(ctx, workspaceId, id));
  await mustLeaveMemory(ctx, id);
  await gradually(ctx.db, (tx, rows) => removeRequests(tx, id, rows));
  return write(ctx.db, (tx) => {
    const row = mustGet(ctx, workspaceId, id);
    mustBeOver(row); // it may have been started meanwhile
    removeRequests(tx, id, -1);
    tx.delete(deployments).where(eq(deployments.id, id)).run();
    emitChange(tx, "deployment.deleted", { row, now: ctx.clock.now() });
    return row;
  });
}

function mustBeOver({ id, name, status }: DeploymentRow) {
  if (status !== "stopped" && status !== "failed")
    throw new AppError(
      "unsupported_state",
      `Deployment ${name} is ${status}: stop it first with POST /v1/deployments/${id}/stop`,
    );
}

/** A request that still ends records itself under the row. */
async function mustLeaveMemory(ctx: Ctx, id: string) {
  const { fleet } = ctx.state.deployments;
  for (let waited = 0; ; waited += POLL_MS) {
    const live = fleet.get(id);
    if (live) forget(ctx, live);
    if (!fleet.has(id)) return;
    if (waited >= ENDING_MS || ctx.closing.aborted)
      throw new AppError("unsupported_state", "The processes of the deployment are still ending: try again later");
    await ctx.clock.sleep(POLL_MS, ctx.closing);
  }
}

function removeRequests(tx: Tx, deploymentId: string, limit: number): number {
  const { id } = deploymentRequests;
  const some = tx
    .select({ id })
    .from(deploymentRequests)
    .where(eq(deploymentRequests.deploymentId, deploymentId))
    .limit(limit);
  return tx.delete(deploymentRequests).where(sql`${id} IN ${some}`).returning({ id }).all().length;
}
