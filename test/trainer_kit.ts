/** Runs trainings in this process, on real models, with rewards that are functions of the test. */
import { join } from "node:path";
import type { ChatMessage } from "../src/lib/chat/messages.ts";
import { formatOf, type Row } from "../src/lib/rows/format.ts";
import type { HyperparameterInput, Method } from "../src/lib/training/fields.ts";
import { readHyperparameters } from "../src/lib/training/hyperparameters.ts";
import { LoraSettings } from "../src/lib/training/lora.ts";
import { stepsOf } from "../src/lib/training/plan.ts";
import { resolveHyperparameters } from "../src/lib/training/resolve.ts";
import { openRows } from "../src/platform/rows/file.ts";
import type { FromTrainer, TrainPlan } from "../src/workers/protocol_trainer.ts";
import { createResultWriter } from "../src/workers/trainer/learned.ts";
import { train } from "../src/workers/trainer/loop/train.ts";
import type { ActAll } from "../src/workers/trainer/loop/turns.ts";
import type { Score, World } from "../src/workers/trainer/loop/types.ts";
import { type Machine, type Opened, openTraining, type Setting } from "../src/workers/trainer/open.ts";
import { spreadScore } from "../src/workers/trainer/ranks/messages.ts";
import type { Ranks } from "../src/workers/trainer/ranks/types.ts";

let made = 0;

export async function rowsFile(dir: string, rows: readonly Row[]): Promise<TrainPlan["rows"]> {
  const path = join(dir, `rows-${made++}.db`);
  const file = openRows(path, "build");
  const body = new TextEncoder().encode(rows.map((row) => `${JSON.stringify(row)}\n`).join(""));
  file.transact(() => file.append(1, [body], [], 1));
  await file.flush();
  file.close();
  return { path, head_row: rows.length, format: formatOf(rows[0] as Row) };
}

type PlanOptions<M extends Method> = {
  dir: string;
  model: string;
  method: M;
  rows: readonly Row[];
  heldOut?: readonly Row[];
  given?: HyperparameterInput<M>;
  /** Null trains all weights. */
  lora?: Partial<LoraSettings> | null;
  seed?: number;
  context?: number;
  /** The model that a student learns from, without any reward. */
  teacher?: string;
};

export async function planOf<M extends Method>(options: PlanOptions<M>): Promise<TrainPlan> {
  const { dir, model, method, rows, heldOut, given = {}, lora = {}, seed = 7, context = 512, teacher } = options;
  const read = readHyperparameters(method, given);
  if (!read.ok) throw new Error(JSON.stringify(read.problems));
  const facts = {
    lora: lora !== null,
    rows: rows.length,
    parameters: 1e5,
    contextLength: context,
    hasCompletions: true,
  };
  const resolved = resolveHyperparameters(method, read.given, facts);
  if (!resolved.ok) throw new Error(JSON.stringify(resolved.problems));
  return {
    model_path: model,
    method,
    hyperparameters: resolved.values as unknown as Record<string, unknown>,
    lora: lora && LoraSettings.parse(lora),
    seed,
    rows: await rowsFile(dir, rows),
    eval_rows: heldOut ? await rowsFile(dir, heldOut) : null,
    total_steps: stepsOf(method, resolved.values, rows.length),
    micro_divisor: 1,
    ...(teacher === undefined ? {} : { teacher_path: teacher, unrewarded: true }),
  };
}

type RunOptions = {
  plan: TrainPlan;
  /** The data directory. */
  dir: string;
  checkpoints: string;
  score?: Score;
  resume?: string | null;
  warmStart?: string | null;
  saveSteps?: number;
  /** Called after every message; true ends the training. */
  endsWhen?: (messages: readonly FromTrainer[]) => boolean;
  samplesPerStep?: number;
  /** Default: one thread of the CPU. */
  machine?: Omit<Machine, "data_dir">;
  /** Settings of the model that draws samples for GRPO. */
  sampler?: NonNullable<Setting["sampler"]>;
  emulated?: NonNullable<Setting["emulated"]>;
  ranks?: Ranks;
  act?: ActAll;
  /** Before the first step. */
  onOpened?: (opened: Opened) => void;
};

export type Message<T extends FromTrainer["type"]> = Extract<FromTrainer, { type: T }>;

export async function runTraining(options: RunOptions) {
  const { plan, dir, checkpoints, score, resume = null, warmStart = null, saveSteps = 0 } = options;
  const messages: FromTrainer[] = [];
  const machine = { data_dir: dir, ...(options.machine ?? { threads: 1, gpus: [] }) };
  const opened = await openTraining({
    machine,
    plan,
    samplesPerStep: options.samplesPerStep ?? 4,
    fresh: resume === null && warmStart === null,
    ranks: options.ranks ?? null,
    onLoading() {},
    onTurn() {},
    ...(options.sampler ? { sampler: options.sampler } : {}),
    ...(options.emulated ? { emulated: options.emulated } : {}),
  });
  options.onOpened?.(opened);
  const unscored: Score = () => Promise.reject(new Error("this test scores nothing"));
  const { ranks } = options;
  const world: World = {
    trainee: opened.trainee,
    ranks: ranks ?? null,
    reference: opened.reference,
    teacher: opened.teacher,
    score: plan.unrewarded ? null : ranks ? spreadScore(ranks, score ?? unscored) : (score ?? unscored),
    act: options.act ?? (() => Promise.reject(new Error("this test has no environment"))),
    send: (message) => void messages.push(message),
    signal: new AbortController().signal,
    isEnding: () => options.endsWhen?.(messages) ?? false,
    now: () => performance.now(),
    memoryBytes: () => opened.trainee.memoryBytes + (opened.roller?.facts.memoryBytes ?? 0),
    isOnGpu: machine.gpus.length > 0,
  };
  const ended = await train(world, opened.openMethod, {
    plan,
    checkpoint_dir: checkpoints,
    save_steps: saveSteps,
    save_seconds: 0,
    resume,
    warm_start: warmStart,
    device: "CPU",
    rows: opened.recipe.rows,
    sampling: opened.sampling,
    writeResult: createResultWriter({ trainee: opened.trainee, machine, plan }),
  })
    .then((ending) => ({ ending, error: null }))
    .catch((error: Error) => ({ ending: null, error }));
  await opened.close();
  const of = <T extends FromTrainer["type"]>(type: T) =>
    messages.filter((each): each is Message<T> => each.type === type);
  return { ...ended, messages, of, steps: of("step"), checkpoints: of("checkpoint") };
}

/** Metrics that are times or depend on them. */
export const TIMES = [
  ...["step_time", "sync_time", "rollout_time", "reward_time", "update_time", "other_time"],
  ...["tokens_per_second", "rollout_tokens_per_second", "reward_latency_p95", "gpu_memory_peak_bytes"],
];
/** The most that the parts of a step's time differ from the whole. */
export const secondsLeftOver = (steps: readonly Message<"step">[]) =>
  Math.max(
    ...steps.map(({ values }) => {
      const parts = ["rollout_time", "reward_time", "update_time", "other_time"].map((key) => values[key] ?? 0);
      return Math.abs((values["step_time"] ?? 0) - parts.reduce((a, b) => a + b, 0));
    }),
  );

export const stream = (steps: readonly Message<"step">[]) =>
  steps.map(({ eta_ms: _, values, ...rest }) => ({
    ...rest,
    values: Object.fromEntries(Object.entries(values).filter(([key]) => !TIMES.includes(key))),
  }));

/** The last message of a rollout. */
const textOf = (completion: unknown) =>
  typeof completion === "string" ? completion : String((completion as ChatMessage[]).at(-1)?.content);

/** A reward computed from the completion. */
export const scoring =
  (reward: (completion: string, row: Row) => number | null): Score =>
  async (_, samples) => ({
    results: samples.map(({ completion, row }) => {
      const value = reward(textOf(completion), JSON.parse(row) as Row);
      return { reward: value, sub_rewards: { it: value }, error: null };
    }),
    latencies_ms: samples.map(() => 1),
    stdout: "",
  });
