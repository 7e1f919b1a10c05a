/** Turns a job's row into a plan for a node and the files that the node needs. */
import { randomBytes } from "node:crypto";
import type { Ctx } from "../../../../context.ts";
import { MINUTE_MS } from "../../../../lib/units.ts";
import { checkpointsDir, type Handle, jobDir } from "../../../../platform/providers/protocol.ts";
import { inputFile, modelInput, stagingDir } from "../../../../platform/providers/staging.ts";
import type { InputFile, Submission } from "../../../../platform/providers/types.ts";
import { copyRows } from "../../../../platform/rows/copy.ts";
import { linkFile, namesIn } from "../../../../sandbox/files/trees.ts";
import type { TrainPlan } from "../../../../workers/protocol_trainer.ts";
import { spaceMeter } from "../../../data/storage_usage/service.ts";
import * as models from "../../../serving/models/service.ts";
import type { ModelRow } from "../../../serving/models/table.ts";
import { leftMs } from "../custom/spec.ts";
import { hasRewards } from "../policy.ts";
import { taskOf } from "../running/plan.ts";
import { keptCheckpoints } from "../state/checkpoint_files.ts";
import { baseModelOf, unstartable } from "../state/inputs.ts";
import { checkpointDir } from "../state/paths.ts";
import type { CheckpointRow, JobRow } from "../table.ts";
import { customSubmission } from "./custom_submission.ts";

/** The server ends a job at its limit. The scheduler does so soon after, if the server is away. */
const EXTRA_MINUTES = 10;

/** Throws `Unstartable` if a file is gone for good. */
export async function submissionOf(ctx: Ctx, job: JobRow, handle: Handle): Promise<Submission> {
  if (job.method === "custom") return await customSubmission(ctx, job, handle);
  const base = baseModelOf(ctx, job);
  if ("waits" in base) throw unstartable("provisioning_failed", `The job ${base.waits}`, "/base_model");
  const staging = stagingDir(ctx.config.data_dir, job.id);
  const checkpoint = keptCheckpoints(ctx.db, job.id).at(-1);
  const task = taskOf(ctx, job, { ...base, model: base.ready, devices: [], checkpoint });
  const model = await modelFile(ctx, base.ready);
  const start = base.start && (await modelFile(ctx, base.start));
  const teacher = base.teacher && (await modelFile(ctx, base.teacher));
  const rows = await rowsFile(ctx, job, task.plan.rows, { name: "rows.db", staging });
  const held =
    task.plan.eval_rows && (await rowsFile(ctx, job, task.plan.eval_rows, { name: "eval_rows.db", staging }));
  const saved = checkpoint ? await checkpointFiles(ctx, job, checkpoint, staging) : undefined;
  const plan: TrainPlan = {
    ...task.plan,
    model_path: model.path,
    rows: { ...task.plan.rows, path: rows.path },
    eval_rows: held && task.plan.eval_rows ? { ...task.plan.eval_rows, path: held.path } : null,
    ...(start ? { start_adapter: start.path } : {}),
    ...(teacher ? { teacher_path: teacher.path } : {}),
  };
  const { sample_timeout_ms: sampleMs, batch_timeout_ms: batchMs, require } = ctx.config.sandbox;
  return {
    inputs: [
      model,
      ...(start ? [start] : []),
      ...(teacher && teacher.path !== model.path ? [teacher] : []),
      rows,
      ...(held ? [held] : []),
      ...(saved?.files ?? []),
    ],
    plan: {
      handle,
      task: { ...task, plan, checkpoint_dir: checkpointsDir(job.id), resume: saved?.path ?? null },
      gpus: job.gpuType === "cpu" ? 0 : job.gpuCount,
      gpu_type: job.gpuType,
      ...(isLimited(ctx, job) ? { minutes: Math.ceil(leftMs(ctx, job) / MINUTE_MS) + EXTRA_MINUTES } : {}),
      ...(task.ranks > 1 ? { secret: randomBytes(32).toString("hex") } : {}),
      rewards: hasRewards(job.rewards) ? job.rewards.parts : null,
      limits: { sampleMs, batchMs },
      settings: { "sandbox.require": require },
    },
  };
}

/** A job without a limit of its own has the longest one of this server, and saves at that of its scheduler. */
const isLimited = (ctx: Ctx, { maxRuntimeMs }: JobRow) =>
  maxRuntimeMs !== null && maxRuntimeMs < ctx.config.training.max_runtime_minutes * MINUTE_MS;

const modelFile = (ctx: Ctx, model: ModelRow): Promise<InputFile> =>
  modelInput(models.pathOf(ctx, model), model.sha256);

type Copy = { name: string; staging: string };

async function rowsFile(ctx: Ctx, job: JobRow, rows: TrainPlan["rows"], { name, staging }: Copy): Promise<InputFile> {
  using meter = spaceMeter(ctx);
  const copy = `${staging}/${name}`;
  await copyRows(rows.path, copy, rows.head_row, meter);
  return await inputFile(`${jobDir(job.id)}/inputs/${name}`, copy);
}

/** The node may already have them; then nothing is copied. */
async function checkpointFiles(ctx: Ctx, job: JobRow, { path }: CheckpointRow, staging: string) {
  const name = path.split("/").at(-1) ?? "";
  const dir = checkpointDir(ctx, path);
  const to = `${checkpointsDir(job.id)}/${name}`;
  const files: InputFile[] = [];
  for (const each of await namesIn(dir)) {
    const copy = `${staging}/${name}-${each}`;
    using meter = spaceMeter(ctx);
    await linkFile(dir, each, copy, meter);
    files.push(await inputFile(`${to}/${each}`, copy));
  }
  return { path: to, files };
}
