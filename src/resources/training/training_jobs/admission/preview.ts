/** Tries out a job that does not exist yet: the real model, a few prompts, the real reward. Nothing is stored. */
import type { Ctx } from "../../../../context.ts";
import { isRolled } from "../../../../lib/training/fields.ts";
import { MINUTE_MS, SECOND_MS } from "../../../../lib/units.ts";
import type { Exit, Worker } from "../../../../platform/workers/types.ts";
import {
  FromTrainer,
  type PreviewTask,
  type ToTrainer,
  type TrainSample,
} from "../../../../workers/protocol_trainer.ts";
import * as gpu from "../../../machines/gpu/service.ts";
import { hasRewards, judgeEnd, type Trouble, UNREPORTED_END } from "../policy.ts";
import { planOf } from "../running/plan.ts";
import { type Scoring, scoringFor } from "../running/scoring.ts";
import { grantsOf, holdFiles } from "../state/grants.ts";
import { baseModelOf, deviceOf, startFault } from "../state/inputs.ts";
import type { JobError, JobRow } from "../table.ts";
import { previewRows } from "./rows_preview.ts";
import type { JobValidation } from "./validation_schema.ts";

type Measured = { memoryBytes: number; stepMs: number | null; samples: TrainSample[]; latenciesMs: number[] };
export type Preview = Measured & { rows: JobValidation["rows_preview"] };

const PROMPTS = 4;
const MEMORY_WAIT_MS = 30 * SECOND_MS;
const RETRY_MS = 500;
const LONGEST_MS = 10 * MINUTE_MS;

/** `error`: the failure that the job would have. Rejects when `signal` aborts, and for faults of the server. */
export async function preview(ctx: Ctx, job: JobRow, signal: AbortSignal): Promise<Preview | { error: JobError }> {
  const holder = `${job.id}/preview`;
  try {
    const base = baseModelOf(ctx, job);
    if ("waits" in base) return refused(`The preview cannot start now: it ${base.waits}`, "/base_model");
    const grant = await memoryFor(ctx, job, holder, signal);
    if (grant.status !== "granted") return refused(grant.reason, "/gpu");
    const plan = planOf(ctx, job, { ...base, model: base.ready });
    const task: PreviewTask = { type: "preview", ...deviceOf(ctx, grant.devices), plan, prompts: PROMPTS };
    return await runPreview(ctx, job, { task, cards: grant.devices.length > 0 ? grant.deviceIds : [], signal });
  } catch (error) {
    const fault = signal.aborted ? undefined : startFault(error);
    if (!fault) throw error;
    return { error: fault };
  } finally {
    gpu.release(ctx, holder);
  }
}

const refused = (message: string, param: string) => ({
  error: { code: "provisioning_failed" as const, message, param },
});

/** Waits a while for memory in use, on one device. A preview evicts nothing. */
async function memoryFor(ctx: Ctx, job: JobRow, holder: string, signal: AbortSignal): Promise<gpu.Grant> {
  const until = ctx.clock.now() + MEMORY_WAIT_MS;
  const { workspaceId, gpuType, priority } = job;
  const bytes = Math.ceil(job.memoryBytes / job.gpuCount);
  for (;;) {
    const request = { workspaceId, bytes, gpuType, gpuCount: 1, priority, pinned: true, mayEvict: false };
    const grant = await gpu.acquire(ctx, { holder, kind: "training_job", ...request });
    if (grant.status !== "waiting" || ctx.clock.now() >= until) return grant;
    await ctx.clock.sleep(RETRY_MS, signal);
    signal.throwIfAborted();
  }
}

type PreviewRun = { task: PreviewTask; cards: readonly string[]; signal: AbortSignal };

type Outcome = Measured | { error: JobError };

async function runPreview(
  ctx: Ctx,
  job: JobRow,
  { task, cards, signal }: PreviewRun,
): Promise<Preview | { error: JobError }> {
  const scoring = scoringFor(ctx, job);
  const release = holdFiles(ctx, task);
  try {
    const outcome = await runTrainer(ctx, job, { task, cards, signal, scoring });
    if ("error" in outcome) return outcome;
    if (isRolled(job.method)) return { ...outcome, rows: null };
    return { ...outcome, rows: await previewRows(ctx, { workspaceId: job.workspaceId, signal }, task.plan) };
  } finally {
    release();
  }
}

async function runTrainer(ctx: Ctx, job: JobRow, { task, cards, signal, scoring }: PreviewRun & { scoring: Scoring }) {
  const done = Promise.withResolvers<Outcome>();
  let trouble: Trouble | null = null;
  const worker: Worker<FromTrainer, ToTrainer> = ctx.supervisor.spawn<FromTrainer, ToTrainer>({
    kind: "trainer",
    incoming: FromTrainer,
    grants: grantsOf(task),
    extraEnv: { CUDA_VISIBLE_DEVICES: cards.join() },
    onMessage(message) {
      if (message.type === "score" || message.type === "act")
        return scoring.answer(message).then((answer) => answer && worker.send(answer));
      if (message.type === "trouble") trouble = message;
      if (message.type === "previewed") done.resolve(previewOf(message, job.gpuCount));
      return undefined;
    },
    onExit: (exit) => done.resolve({ error: causeOf(job, exit, trouble) }),
  });
  const leave = () => done.reject(signal.reason);
  signal.addEventListener("abort", leave, { once: true });
  const late = setTimeout(() => void worker.stop("the preview took too long"), LONGEST_MS);
  try {
    signal.throwIfAborted();
    if (hasRewards(job.rewards)) scoring.begin();
    worker.ready.then(
      () => worker.send(task),
      () => {}, // onExit reports the end
    );
    return await done.promise;
  } finally {
    clearTimeout(late);
    signal.removeEventListener("abort", leave);
    await Promise.all([worker.stop("the preview is over"), scoring.close()]);
  }
}

const previewOf = (report: Extract<FromTrainer, { type: "previewed" }>, devices: number): Measured => ({
  memoryBytes: report.memory_bytes * devices,
  stepMs: report.step_ms,
  samples: report.samples,
  latenciesMs: report.latencies_ms,
});

/** The failure of the job if this were its last retry. */
function causeOf(job: JobRow, { kind, message, tail }: Exit, trouble: Trouble | null): JobError {
  const end = { ...UNREPORTED_END, kind, message, tail, trouble };
  const lastTry = { ...job, status: "running" as const, memoryRetries: 1, step: 0, crashStep: 0 };
  const verdict = judgeEnd(lastTry, end, { crashLimit: 0, now: 0 });
  return verdict.next === "fail" ? verdict.error : { code: "worker_crashed", message, param: null };
}
