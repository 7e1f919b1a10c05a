/** The successful end of a job: its last or best checkpoint becomes a model in the commit that completes the job. */
import type { Ctx } from "../../../../context.ts";
import { write } from "../../../../platform/db/db.ts";
import * as modelResults from "../../../serving/models/results.ts";
import { bestOf, takesBest } from "../policy.ts";
import { alignCheckpoints, keptCheckpoints } from "../state/checkpoint_files.ts";
import { complete } from "../state/moves.ts";
import { checkpointDir } from "../state/paths.ts";
import { currentJob } from "../state/rows.ts";
import type { CheckpointRow, JobRow } from "../table.ts";

const resultFile = ({ lora }: Pick<JobRow, "lora">) => (lora ? "adapter.gguf" : "model.gguf");

/** Throws if the model's file is missing; then the job is unchanged. */
export async function finish(ctx: Ctx, id: string, stoppedEarly: string | null = null): Promise<JobRow | undefined> {
  const job = currentJob(ctx.db, id);
  if (job?.method === "custom") return completeCustom(ctx, id);
  const newest = keptCheckpoints(ctx.db, id).at(-1);
  // The message about the last checkpoint may be lost: then its directory is the proof.
  const last = job && (newest?.step === job.totalSteps ? newest : await alignCheckpoints(ctx, job));
  const best = job && takesBest(job) ? bestOf(job, keptCheckpoints(ctx.db, id)) : undefined;
  const checkpoint = best ?? last;
  if (!job || !checkpoint) throw new Error("The job has no checkpoint");
  const result = resultOf(ctx, job, checkpoint);
  const stored = await modelResults.placeResult(ctx, result);
  return write<{ row: JobRow | undefined }>(ctx.db, (tx) => {
    const fresh = currentJob(tx, id);
    const row = fresh && complete(ctx, tx, fresh, stoppedEarly);
    if (row) modelResults.addResult(ctx, tx, result, stored);
    return { row };
  }).row;
}

/** Its output is stored already. */
const completeCustom = (ctx: Ctx, id: string): JobRow | undefined =>
  write<{ row: JobRow | undefined }>(ctx.db, (tx) => {
    const fresh = currentJob(tx, id);
    return { row: fresh && complete(ctx, tx, fresh) };
  }).row;

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
