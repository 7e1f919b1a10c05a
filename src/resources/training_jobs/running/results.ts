/** The end that everybody hopes for: the last checkpoint becomes a model in the commit that completes the job. */
import type { Ctx } from "../../../context.ts";
import { write } from "../../../platform/db/db.ts";
import * as modelResults from "../../models/results.ts";
import type * as models from "../../models/service.ts";
import { align, keptOf } from "../state/checkpoint_files.ts";
import { complete, current } from "../state/moves.ts";
import { checkpointDir } from "../state/paths.ts";
import type { CheckpointRow, JobRow } from "../table.ts";

export const resultFile = ({ lora }: Pick<JobRow, "lora">) => (lora ? "adapter.gguf" : "model.gguf");

/** Throws where the file cannot be had; the job is as it was then. */
export async function finish(ctx: Ctx, id: string): Promise<JobRow | undefined> {
  const job = current(ctx.db, id);
  const told = keptOf(ctx.db, id).at(-1);
  const checkpoint = job && (told?.step !== job.totalSteps ? await align(ctx, job) : told); // files know it better
  if (!job || !checkpoint) throw new Error("The job has no checkpoint");
  const result = resultOf(ctx, job, checkpoint);
  const placed = await modelResults.placeResult(ctx, result);
  return write<{ row: JobRow | undefined }>(ctx.db, (tx) => {
    const fresh = current(tx, id);
    const row = fresh && complete(ctx, tx, fresh);
    if (row) modelResults.addResult(ctx, tx, result, placed);
    return { row };
  }).row;
}

function resultOf(ctx: Ctx, job: JobRow, checkpoint: CheckpointRow): modelResults.Result {
  return {
    workspaceId: job.workspaceId,
    jobId: job.id,
    checkpointId: checkpoint.id,
    step: checkpoint.step,
    variant: job.lora ? "adapter" : "model",
    name: job.outputName,
    baseModelId: job.baseModelId,
    file: { dir: checkpointDir(ctx, checkpoint.path), name: resultFile(job) },
  };
}
