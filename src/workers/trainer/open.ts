/** Opens a plan: rows, a model that learns, one that samples, and the method that connects them. */
import { isRolled, type Method as MethodName, type RolledMethod, usesReference } from "../../lib/training/fields.ts";
import { rolloutSlots } from "../../lib/training/memory_rollouts.ts";
import type { Resolved } from "../../lib/training/resolve.ts";
import type { Kernels } from "../../native/cuda/kernels.ts";
import type { Device } from "../../native/ggml/ggml.ts";
import { WorkerError } from "../protocol.ts";
import type { TrainPlan } from "../protocol_trainer.ts";
import { createEncoder, type Encoder } from "./data/encode.ts";
import {
  type Answer,
  type Examples,
  openAnswers,
  openPairs,
  openPrompts,
  openSequences,
  type Pair,
  type Prompt,
  type Sequence,
} from "./data/examples.ts";
import { openRowSource, type RowSource } from "./data/rows.ts";
import { openTokenizer } from "./data/tokenizer.ts";
import { chooseExact, confirmExact, exactLine } from "./exact_sampling.ts";
import { createSync } from "./learned.ts";
import { openGrpo } from "./loop/grpo.ts";
import { openKto } from "./loop/kto.ts";
import { openDpo, openOrpo } from "./loop/pairs.ts";
import { openSft } from "./loop/sft.ts";
import type { OpenMethod, Reference } from "./loop/types.ts";
import { spreadRoller } from "./ranks/spread_roller.ts";
import type { Ranks } from "./ranks/types.ts";
import { readAdapterGguf } from "./results/read_adapter.ts";
import { openRoller } from "./rollouts/roller.ts";
import type { Roller, RollerOptions } from "./rollouts/types.ts";
import { openFrozen } from "./trainee/frozen.ts";
import { openTrainee, type Trainee } from "./trainee/trainee.ts";
import type { Piece } from "./trainee/types.ts";
import { Trouble } from "./trouble.ts";

export type Machine = { data_dir: string; threads: number; gpus: readonly number[] };
export type Setting = {
  machine: Machine;
  plan: TrainPlan;
  samplesPerStep: number;
  /** True if training starts from the file's weights. */
  fresh: boolean;
  /** The other processes of this training. Absent or null: there are none. */
  ranks?: Ranks | null;
  onLoading: (stage: string, progress: number) => void;
  onTurn: () => void;
  /** For tests and benchmarks: who draws the samples. */
  sampler?: Pick<RollerOptions, "kernels" | "device" | "wide">;
  /** For tests: kernels of the trainer in place of a GPU's, and its compute capability. */
  emulated?: { kernels: Kernels; major: number };
};

export type Opened = {
  trainee: Trainee;
  roller: Roller | null;
  reference: Reference | null;
  /** Null if the method has no prompts. */
  prompts: Examples<Prompt> | null;
  sequences: Examples<Sequence[]> | null;
  pairs: Examples<Pair> | null;
  answers: Examples<Answer> | null;
  openMethod: OpenMethod;
  /** Text for the log: the number of rows. */
  rows: string;
  /** Text for the log: exact or usual sampling. Null if the method draws no samples. */
  sampling: string | null;
  close: () => Promise<void>;
};

/** Examples for training and held-out ones. */
type Both<T> = { examples: Examples<T>; heldOut: Examples<T> | null };

export const valuesOf = <M extends MethodName>(plan: TrainPlan) => plan.hyperparameters as unknown as Resolved<M>;
export const deviceOf = ({ gpus, threads }: Machine): Device =>
  gpus[0] === undefined ? { kind: "cpu", threads } : { kind: "cuda", index: gpus[0] };

export async function openTraining(setting: Setting): Promise<Opened> {
  const { plan, machine, onLoading, onTurn } = setting;
  const closing: (() => void | Promise<void>)[] = [];
  const close = async () => {
    for (const each of closing.reverse()) await each();
  };
  try {
    onLoading("reading", 0);
    const tokenizer = openTokenizer(machine.data_dir, plan.model_path, machine.gpus.length > 0);
    closing.push(tokenizer.close);
    const encoder = createEncoder(tokenizer);
    const read = async <T>(make: (source: RowSource) => Promise<Examples<T>>): Promise<Both<T>> => {
      const open = async (rows: TrainPlan["rows"]) => {
        const source = await openRowSource(rows, (fraction) => {
          onTurn();
          onLoading("reading", fraction);
        });
        closing.push(source.close);
        return make(source);
      };
      const examples = await open(plan.rows);
      return { examples, heldOut: plan.eval_rows && (await open(plan.eval_rows).catch(ofHeldOut)) };
    };
    const { contextLength } = tokenizer.facts;
    const examples = await readExamples(plan, { encoder, contextLength, read });
    onLoading("loading", 0);
    const choice = isRolled(plan.method) ? await chooseExact(setting) : null;
    const trainee = await openTrainee({
      dataDir: machine.data_dir,
      modelPath: plan.model_path,
      device: deviceOf(machine),
      lora: plan.lora,
      seed: plan.seed,
      maxLength: examples.maxLength,
      checkpointing: valuesOf(plan).gradient_checkpointing,
      optim: valuesOf(plan).optim ?? "adamw_torch", // absent in jobs that were created before it existed
      in4Bit: valuesOf(plan).load_in_4bit ?? false,
      noiseAlpha: plan.method === "sft" ? valuesOf<"sft">(plan).neftune_noise_alpha : null,
      temperature: temperatureOf(plan),
      microDivisor: plan.micro_divisor,
      ranks: setting.ranks ?? null,
      exact: choice?.reason === null,
      ...(setting.emulated ? { kernels: setting.emulated.kernels } : {}),
      onTurn,
    });
    closing.push(() => trainee.close());
    if (plan.start_adapter !== undefined) trainee.startFrom(await readAdapterGguf(plan.start_adapter));
    const { reference, closeReference } = await openReference(setting, trainee, examples.maxLength);
    closing.push(closeReference);
    const sampler = isRolled(plan.method) ? await openSampler(setting, trainee, examples.maxLength) : null;
    if (sampler) closing.push(sampler.close);
    const sampling = choice && sampler && exactLine(confirmExact(choice, trainee, sampler));
    const roller = sampler && setting.ranks ? spreadRoller(sampler, setting.ranks) : sampler;
    const sync = roller ? createSync({ trainee, roller, machine, plan, fresh: setting.fresh }) : async () => {};
    return {
      trainee,
      roller,
      reference,
      prompts: examples.prompts?.examples ?? null,
      sequences: examples.sequences?.examples ?? null,
      pairs: examples.pairs?.examples ?? null,
      answers: examples.answers?.examples ?? null,
      openMethod: (world, resumed) => {
        const { seed } = plan;
        if (examples.sequences)
          return openSft(world, { seed, values: valuesOf<"sft">(plan), ...examples.sequences }, resumed);
        if (examples.answers)
          return openKto(world, { seed, values: valuesOf<"kto">(plan), ...examples.answers }, resumed);
        if (examples.pairs && plan.method === "orpo")
          return openOrpo(world, { seed, values: valuesOf<"orpo">(plan), ...examples.pairs }, resumed);
        if (examples.pairs) return openDpo(world, { seed, values: valuesOf<"dpo">(plan), ...examples.pairs }, resumed);
        const { examples: prompts, heldOut } = examples.prompts!;
        const method = plan.method as RolledMethod;
        const values = valuesOf<RolledMethod>(plan);
        const { samplesPerStep } = setting;
        const rolled = { method, values, seed, prompts, heldOut, samplesPerStep, sync, roller: roller! };
        return openGrpo(world, rolled, resumed);
      },
      rows: examples.words,
      sampling,
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

const temperatureOf = (plan: TrainPlan) => (isRolled(plan.method) ? valuesOf<RolledMethod>(plan).temperature : 1);

function ofHeldOut(error: unknown): never {
  if (!(error instanceof Trouble)) throw error;
  throw new Trouble(error.kind, `eval_dataset: ${error.message}`, { param: "eval_dataset" }, { cause: error });
}

type Reading = {
  encoder: Encoder;
  contextLength: number;
  read: <T>(make: (source: RowSource) => Promise<Examples<T>>) => Promise<Both<T>>;
};
type Read = {
  prompts?: Both<Prompt>;
  sequences?: Both<Sequence[]>;
  pairs?: Both<Pair>;
  answers?: Both<Answer>;
  /** Tokens of the longest sequence of the training. */
  maxLength: number;
  words: string;
};

async function readExamples(plan: TrainPlan, { encoder, contextLength, read }: Reading): Promise<Read> {
  const longest = <T>({ examples, heldOut }: Both<T>) => Math.max(examples.longest, heldOut?.longest ?? 0);
  if (plan.method === "sft") {
    const values = valuesOf<"sft">(plan);
    const scope = {
      completionOnly: values.completion_only_loss,
      assistantOnly: values.assistant_only_loss,
      maxLength: values.max_length,
      packing: values.packing,
    };
    const sequences = await read((source) => openSequences(source, encoder, scope));
    const words = `${sequences.examples.count} ${scope.packing ? "packed rows" : "rows"}`;
    return { sequences, maxLength: longest(sequences), words };
  }
  if (plan.method === "dpo" || plan.method === "orpo") {
    const pairs = await read((source) => openPairs(source, encoder, valuesOf<"dpo">(plan).max_length));
    return { pairs, maxLength: longest(pairs), words: `${pairs.examples.count} pairs` };
  }
  if (plan.method === "kto") {
    const answers = await read((source) => openAnswers(source, encoder, valuesOf<"kto">(plan).max_length));
    return { answers, maxLength: longest(answers), words: `${answers.examples.count} rows` };
  }
  const { max_completion_length: least } = valuesOf<RolledMethod>(plan);
  const prompts = await read((source) => openPrompts(source, encoder, { contextLength, least }));
  return { prompts, maxLength: longest(prompts) + least, words: `${prompts.examples.count} prompts` };
}

/** Without an adapter to switch off, the base model is loaded a second time. */
async function openReference({ plan, machine, ranks, onTurn }: Setting, trainee: Trainee, maxLength: number) {
  const { beta = 0 } = plan.hyperparameters as { beta?: number };
  if (!usesReference(plan.method, beta)) return { reference: null, closeReference: () => {} };
  if (plan.lora)
    return { reference: (pieces: readonly Piece[]) => trainee.score(pieces, { reference: true }), closeReference() {} };
  const frozen = await openFrozen({
    dataDir: machine.data_dir,
    modelPath: plan.model_path,
    device: deviceOf(machine),
    maxLength,
    temperature: temperatureOf(plan),
    microDivisor: plan.micro_divisor,
    ranks: ranks ?? null,
    onTurn,
  });
  return { reference: frozen.score, closeReference: frozen.close };
}

function openSampler(setting: Setting, trainee: Trainee, contextLength: number): Promise<Roller> {
  const { plan, machine, onLoading } = setting;
  const values = valuesOf<RolledMethod>(plan);
  if (values.repetition_penalty !== 1)
    throw new WorkerError("config", "repetition_penalty must be 1: completions are drawn from the unchanged model");
  return openRoller({
    dataDir: machine.data_dir,
    modelPath: plan.model_path,
    contextLength,
    parallel: rolloutSlots(values.generation_batch_size, deviceOf(machine).kind, plan.micro_divisor),
    threads: machine.threads,
    gpus: machine.gpus,
    kernels: plan.lora === null || trainee.canMerge,
    frozen: trainee.frozen,
    exact: trainee.isExact,
    ...setting.sampler,
    onProgress: (fraction) => onLoading("loading", Math.min(fraction, 1)),
  });
}
