/**
 * The loop `fine_tuning.deploy`. A completed job whose result is not deployed is due. One commit creates the deployment
 * and records it, so a kill at any line leaves no second one.
 */
import { and, eq, isNull } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";
import { prepared, write } from "../../../platform/db/db.ts";
import { hardwareFor } from "../../serving/deployments/remote/placing.ts";
import { CreateDeployment } from "../../serving/deployments/schema.ts";
import * as deployments from "../../serving/deployments/service.ts";
import { type JobRow, trainingJobs } from "../../training/training_jobs/table.ts";
import { type FineTuningRow, fineTuningJobs } from "./table.ts";

const undeployed = prepared((db) => {
  const { deploymentId, deploymentError } = fineTuningJobs;
  const isCompleted = eq(trainingJobs.status, "completed");
  return db
    .select({ row: fineTuningJobs, job: trainingJobs })
    .from(fineTuningJobs)
    .innerJoin(trainingJobs, eq(trainingJobs.id, fineTuningJobs.id))
    .where(and(isNull(deploymentId), isNull(deploymentError), isCompleted))
    .prepare();
});

export async function deployResults(ctx: Ctx, signal: AbortSignal): Promise<void> {
  for (const { row, job } of undeployed(ctx.db).all()) if (!signal.aborted) await deploy(ctx, row, job);
}

async function deploy(ctx: Ctx, row: FineTuningRow, job: JobRow): Promise<void> {
  const { id, workspaceId, servedName } = row;
  const set = (patch: Partial<FineTuningRow>) =>
    write(ctx.db, (tx) => void tx.update(fineTuningJobs).set(patch).where(eq(fineTuningJobs.id, id)).run());
  try {
    const input = CreateDeployment.parse({ model: id, name: servedName, metadata: { fine_tuning_job: id } });
    const hardware = await hardwareFor(ctx, workspaceId, input);
    write(ctx.db, (tx) => {
      const payer = { workspaceId, keyId: job.apiKeyId };
      const { id: deploymentId } = deployments.create(ctx, payer, { input, place: hardware });
      tx.update(fineTuningJobs).set({ deploymentId }).where(eq(fineTuningJobs.id, id)).run();
    });
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    if (error.status >= 500) return; // still due
    const message = `The model was trained, but not deployed: ${error.message}`;
    set({ deploymentError: { code: error.code, message } });
  }
}
