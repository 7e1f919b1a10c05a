/**
 * The loop that all methods share: gather gradients, step, report, check, save. Every draw is a function of (seed,
 * step, index), so that a run resumed from a checkpoint reports the same numbers.
 */
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { BestState } from "../../../lib/training/best.ts";
import { scheduleOf } from "../../../lib/training/plan.ts";
import { learningRate } from "../../../lib/training/schedule.ts";
import type { TrainTask } from "../../protocol_trainer.ts";
import {
  clearHalves,
  GENERATION_FILE,
  type LoopState,
  mustContinue,
  mustFit,
  readState,
  STEPS_FILE,
  writeCheckpoint,
} from "../checkpoint.ts";
import { agreeToEnd } from "../ranks/messages.ts";
import { Trouble } from "../trouble.ts";
import { createProbe, openBest, openWatch } from "./effects.ts";
import { createJournal, type Journal } from "./journal.ts";
import { beginLine, endLine, stepLine } from "./lines.ts";
import type { Method, OpenMethod, Resumed, World } from "./types.ts";

export type TrainOptions = Pick<
  TrainTask,
  "plan" | "checkpoint_dir" | "save_steps" | "save_seconds" | "resume" | "warm_start"
> & {
  device: string;
  /** Writes files to serve into a checkpoint. `isResult`: the job's model may be made from it. */
  writeResult: (dir: string, isResult: boolean) => Promise<void>;
  rows: string;
  /** A line for the log about the samples. Null if the method draws none. */
  sampling: string | null;
};

type Ending = "trained" | "saved";

export async function train(world: World, openMethod: OpenMethod, options: TrainOptions): Promise<Ending> {
  const { send } = world;
  const { plan } = options;
  const isFirst = (world.ranks?.index ?? 0) === 0; // only this rank writes files
  if (isFirst) await clearHalves(options.checkpoint_dir);
  const from = await load(world, options);
  const method = openMethod(world, from?.resumed ?? null);
  const total = method.totalSteps;
  const log = (line: string) => send({ type: "log", stream: "stdout", line });
  log(beginLine(plan, total, options.rows));
  if (options.sampling !== null) log(options.sampling);
  if (world.trainee.tapeReason !== null) log(world.trainee.tapeReason);
  if (from) log(`resuming after step ${from.state.step}`);
  else if (options.warm_start !== null) log("starting with the weights of another job's checkpoint");
  let step = from?.state.step ?? 0;
  const memory_bytes = world.memoryBytes() * (world.ranks?.count ?? 1);
  send({ type: "begun", step, total_steps: total, device: options.device, memory_bytes });

  const watch = openWatch(from?.state ?? null);
  const journal = createJournal();
  const save = createSaving(world, method, { ...options, journal });
  const stepOnce = createStep(world, method, options);
  const pace = createPace(world);
  const best = openBest(method.values, from?.state.best ?? null);
  let tokens = from?.state.tokens ?? 0;
  let values: Record<string, number> = {};
  let norm = 0;
  while (step < total && best.stopped() === null) {
    if (await agreeToEnd(world.ranks, world.isEnding(), norm)) break;
    const begun = world.now();
    const done = await stepOnce(step);
    step++;
    norm = done.norm;
    tokens += done.gathered.tokens;
    values = { ...done.gathered.metrics, learning_rate: done.rate, grad_norm: done.norm, num_tokens: tokens };
    if (method.evaluate && isEvaluated(step, total, options)) Object.assign(values, await method.evaluate(step));
    Object.assign(values, pace.took(begun, done.gathered.tokens), { update_time: done.updateTime });
    Object.assign(values, { other_time: otherTime(values) });
    const isSound = Number.isFinite(done.gathered.loss);
    const isBest = best.note(step, values, isSound);
    values = finite(values);
    const alarms = watch.check(step, values);
    if (step === 1 && method.warning !== null) alarms.push({ type: "rows_left_out", message: method.warning });
    for (const { message } of alarms) send({ type: "log", stream: "stderr", line: `alarm: ${message}` });
    log(stepLine(step, total, values));
    const eta_ms = pace.etaMs(total - step);
    const report = { step, epoch: method.epoch(), values, samples: done.gathered.samples, alarms };
    if (isFirst) journal.add({ time: Date.now(), ...report });
    send({ type: "step", ...report, eta_ms });
    const verdict = watch.judge({ ...done.effect, step });
    if (verdict) throw new Trouble("no_effect", verdict.message);
    const state = { step, tokens, total, watch: watch.state(), best: best.state() };
    const last = step === total || best.stopped() !== null;
    const saves = last || isBest || save.isDue(step) || world.isEnding();
    // Metrics rank checkpoints, and a model without a finite loss has no rank.
    if (saves && isFirst) await save.write(state, isSound ? values : {}, { last, isBest });
  }
  const stopped = best.stopped();
  if (step < total && stopped === null) {
    log(`stopping after step ${step}; the job can be resumed`);
    send({ type: "saved" });
    return "saved";
  }
  if (stopped !== null) log(`stopped early: ${stopped}`);
  log(endLine(plan.method, step, values));
  send({ type: "trained", stopped_early: stopped });
  return "trained";
}

type Loaded = { state: LoopState; resumed: Resumed };

async function load({ trainee }: World, { resume, warm_start, plan }: TrainOptions): Promise<Loaded | null> {
  if (resume !== null) {
    const state = await readState(resume);
    mustContinue(state, plan, resume);
    await trainee.load(resume, { moments: true });
    const left = state.generation ? await Bun.file(join(resume, GENERATION_FILE)).text() : null;
    return { state, resumed: { order: state.order, curriculum: state.curriculum, left } };
  }
  if (warm_start !== null) {
    mustFit(await readState(warm_start), plan.lora, warm_start);
    await trainee.load(warm_start, { moments: false });
  }
  return null;
}

/** Runs one optimizer step and returns its effect. */
function createStep({ trainee, signal, send, now }: World, method: Method, { plan }: TrainOptions) {
  const { values } = method;
  const schedule = scheduleOf(values, method.totalSteps);
  const probe = createProbe(trainee, plan.lora !== null);
  return async (step: number) => {
    signal.throwIfAborted();
    const begun = now();
    const gathered = await method.gather(step);
    const gatheredAt = now();
    signal.throwIfAborted();
    const rate = learningRate(schedule, step);
    const { norm, changed } = probe(rate, () =>
      trainee.step({
        learningRate: rate,
        beta1: values.adam_beta1,
        beta2: values.adam_beta2,
        epsilon: values.adam_epsilon,
        weightDecay: values.weight_decay,
        maxNorm: values.max_grad_norm,
        divisor: 1,
      }),
    );
    const gradientTime = gathered.metrics["update_time"] ?? (gatheredAt - begun) / 1000;
    const updateTime = gradientTime + (now() - gatheredAt) / 1000;
    if (!Number.isFinite(norm)) {
      const line = `step ${step + 1} was not applied: the norm of the gradient is ${norm}`;
      send({ type: "log", stream: "stderr", line });
    }
    const effect = { learningRate: rate, maxAdvantage: gathered.maxAdvantage, gradNorm: norm, changed };
    return { gathered, rate, norm, effect, updateTime };
  };
}

type Saveable = {
  step: number;
  tokens: number;
  total: number;
  watch: ReturnType<ReturnType<typeof openWatch>["state"]>;
  best: BestState | null;
};
/** `isBest`: the result may be made from this checkpoint, so it needs the files to serve. */
type Role = { last: boolean; isBest: boolean };

function createSaving(world: World, method: Method, options: TrainOptions & { journal: Journal }) {
  const { plan, checkpoint_dir: dir, save_steps: every, save_seconds: seconds, journal } = options;
  let savedAt = world.now();
  return {
    isDue: (step: number) =>
      (every > 0 && step % every === 0) || (seconds > 0 && world.now() - savedAt >= seconds * 1000),
    async write({ step, tokens, total, watch, best }: Saveable, metrics: Record<string, number>, role: Role) {
      const { last, isBest } = role;
      const left = last ? null : method.left();
      const state: LoopState = {
        version: 1,
        step,
        total_steps: total,
        method: plan.method,
        seed: plan.seed,
        lora: plan.lora,
        tokens,
        order: method.order(),
        curriculum: method.curriculum(),
        ...watch,
        best,
        generation: left !== null,
      };
      await mkdir(dir, { recursive: true });
      const { path, size } = await writeCheckpoint(dir, state, async (into) => {
        await world.trainee.save(into);
        await Bun.write(join(into, STEPS_FILE), journal.text());
        if (left !== null) await Bun.write(join(into, GENERATION_FILE), left);
        await options.writeResult(into, last || isBest);
      });
      journal.clear();
      savedAt = world.now();
      world.send({ type: "checkpoint", step, path, size_bytes: size, metrics });
      world.send({ type: "log", stream: "stdout", line: `checkpoint of step ${step}` });
    },
  };
}

/**
 * Evaluates every tenth of the way, and at checkpoints due by step count. The clock must not decide, or runs would
 * differ.
 */
function isEvaluated(step: number, total: number, { save_steps: every }: TrainOptions): boolean {
  return step === total || step % Math.ceil(total / 10) === 0 || (every > 0 && step % every === 0);
}

/** The rest of a step: copying weights to the sampler, scores of the base model, evaluation. */
const otherTime = (values: Readonly<Record<string, number>>): number => {
  const measured = ["rollout_time", "reward_time", "update_time"].map((key) => values[key] ?? 0);
  return Math.max(0, (values["step_time"] ?? 0) - measured.reduce((a, b) => a + b, 0));
};

const finite = (values: Record<string, number>) =>
  Object.fromEntries(Object.entries(values).filter(([, value]) => Number.isFinite(value)));

/** Number of steps whose mean predicts the remaining time. */
const PACE_STEPS = 20;

function createPace({ now, memoryBytes, isOnGpu }: World) {
  const times: number[] = [];
  return {
    took(begun: number, tokens: number): Record<string, number> {
      const ms = Math.max(now() - begun, 1e-3);
      times.push(ms);
      if (times.length > PACE_STEPS) times.shift();
      const rates = { step_time: ms / 1000, tokens_per_second: (1000 * tokens) / ms };
      return isOnGpu ? { ...rates, gpu_memory_peak_bytes: memoryBytes() } : rates;
    },
    etaMs: (left: number) => (times.reduce((a, b) => a + b, 0) / times.length) * left,
  };
}
