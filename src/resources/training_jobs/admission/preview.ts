/** A look ahead for a job that is not there yet: the real model, a few prompts, the real reward. Nothing is kept. */
import type { Ctx } from "../../../context.ts";
import type { Exit, Worker } from "../../../platform/workers/types.ts";
import { FromTrainer, type PreviewTask, type ToTrainer, type TrainSample } from "../../../workers/protocol_trainer.ts";
import * as gpu from "../../gpu/service.ts";
import { judgeEnd, type Trouble, UNTOLD } from "../policy.ts";
import { baseModelOf, deviceOf, planOf, startFault } from "../running/plan.ts";
import { type Scoring, scoringFor } from "../running/scoring.ts";
import { grantsOf, holdFiles } from "../state/grants.ts";
import type { JobError, JobRow } from "../table.ts";

export type Preview = { memoryBytes: number; stepMs: number | null; samples: TrainSample[]; latenciesMs: number[] };

const PROMPTS = 4;
const MEMORY_MS = 30_000;
const AGAIN_MS = 500;
const LONGEST_MS = 600_000;

/** An error says why the job would fail. Rejects when `signal` aborts, and for faults of the server. */
export async function preview(ctx: Ctx, job: JobRow, signal: AbortSignal): Promise<Preview | { error: JobError }> {
  const holder = `${job.id}/preview`;
  try {
    const base = baseModelOf(ctx, job);
    if ("waits" in base) return refused(`The preview cannot start now: it ${base.waits}`, "/base_model");
    const model = base.ready;
    const grant = await memoryFor(ctx, job, holder, signal);
    if (grant.status !== "granted") return refused(grant.reason, "/gpu");
    const plan = planOf(ctx, job, model);
    const task: PreviewTask = { type: "preview", ...deviceOf(ctx, grant.devices), plan, prompts: PROMPTS };
    return await looked(ctx, job, { task, cards: grant.devices.length > 0 ? grant.deviceIds : [], signal });
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

/** Waits a while where others have it; whoever only wants to look does not make them give way. */
async function memoryFor(ctx: Ctx, job: JobRow, holder: string, signal: AbortSignal): Promise<gpu.Grant> {
  const until = ctx.clock.now() + MEMORY_MS;
  const { workspaceId, memoryBytes: bytes, gpuType, gpuCount, priority } = job;
  for (;;) {
    const want = { workspaceId, bytes, gpuType, gpuCount, priority, pinned: true, mayEvict: false };
    const grant = await gpu.acquire(ctx, { holder, kind: "training_job", ...want });
    if (grant.status !== "waiting" || ctx.clock.now() >= until) return grant;
    await ctx.clock.sleep(AGAIN_MS, signal);
    signal.throwIfAborted();
  }
}

type Look = { task: PreviewTask; cards: readonly string[]; signal: AbortSignal };

async function looked(ctx: Ctx, job: JobRow, { task, cards, signal }: Look): Promise<Preview | { error: JobError }> {
  const scoring = scoringFor(ctx, job);
  const release = holdFiles(ctx, task);
  try {
    return await lookWith(ctx, job, { task, cards, signal, scoring });
  } finally {
    release();
  }
}

async function lookWith(ctx: Ctx, job: JobRow, { task, cards, signal, scoring }: Look & { scoring: Scoring }) {
  const done = Promise.withResolvers<Preview | { error: JobError }>();
  let trouble: Trouble | null = null;
  const worker: Worker<FromTrainer, ToTrainer> = ctx.supervisor.spawn<FromTrainer, ToTrainer>({
    kind: "trainer",
    incoming: FromTrainer,
    grants: grantsOf(task),
    extraEnv: { CUDA_VISIBLE_DEVICES: cards.join() },
    onMessage(message) {
      if (message.type === "score") return scoring.answer(message).then((answer) => answer && worker.send(answer));
      if (message.type === "trouble") trouble = message;
      if (message.type === "previewed") done.resolve(previewOf(message));
      return undefined;
    },
    onExit: (exit) => done.resolve({ error: causeOf(job, exit, trouble) }),
  });
  const leave = () => done.reject(signal.reason);
  signal.addEventListener("abort", leave, { once: true });
  const late = setTimeout(() => void worker.stop("the preview takes too long"), LONGEST_MS);
  try {
    signal.throwIfAborted();
    if (job.method === "grpo") scoring.begin();
    worker.ready.then(
      () => worker.send(task),
      () => {}, // its end is told by onExit
    );
    return await done.promise;
  } finally {
    clearTimeout(late);
    signal.removeEventListener("abort", leave);
    await Promise.all([worker.stop("the preview is over"), scoring.close()]);
  }
}

const previewOf = (told: Extract<FromTrainer, { type: "previewed" }>): Preview => ({
  memoryBytes: told.memory_bytes,
  stepMs: told.step_ms,
  samples: told.samples,
  latenciesMs: told.latencies_ms,
});

/** What the job would fail with, were this its last try. */
function causeOf(job: JobRow, { kind, message, tail }: Exit, trouble: Trouble | null): JobError {
  const end = { ...UNTOLD, kind, message, tail, trouble };
  const lastTry = { ...job, status: "running" as const, memoryRetries: 1, step: 0, crashStep: 0 };
  const verdict = judgeEnd(lastTry, end, { crashLimit: 0, now: 0 });
  return verdict.next === "fail" ? verdict.error : { code: "worker_crashed", message, param: null };
}
