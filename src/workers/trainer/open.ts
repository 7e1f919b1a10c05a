/** Opens a plan: rows, a model that learns, one that samples, and the method that connects them. */
import { usesReference } from "../../lib/training/fields.ts";
import { divergenceOf } from "../../lib/training/loss/divergence.ts";
import { rolloutSlots } from "../../lib/training/memory_rollouts.ts";
import type { Kernels } from "../../native/cuda/kernels.ts";
import type { Device } from "../../native/ggml/ggml.ts";
import { WorkerError } from "../protocol.ts";
import type { TrainPlan } from "../protocol_trainer.ts";
import { createEncoder, type Variables } from "./data/encode.ts";
import { openRowSource } from "./data/rows.ts";
import { openTokenizer, type Tokenizer } from "./data/tokenizer.ts";
import { chooseExact, confirmExact, type ExactChoice, exactLine } from "./exact_sampling.ts";
import { createSync } from "./learned.ts";
import { METHODS } from "./loop/methods.ts";
import { isHard } from "./loop/rollout.ts";
import type { OpenMethod, Reading, Recipe, Reference, RolledRecipe, Teacher, World } from "./loop/types.ts";
import { readModelFile, tokenBytes } from "./model_file.ts";
import { previewRolled, previewRows } from "./preview.ts";
import { spreadRoller } from "./ranks/spread_roller.ts";
import type { Ranks } from "./ranks/types.ts";
import { readAdapterGguf } from "./results/read_adapter.ts";
import { openRoller } from "./rollouts/roller.ts";
import type { Roller, RollerOptions } from "./rollouts/types.ts";
import { type FrozenModel, openFrozen } from "./trainee/frozen.ts";
import { openTrainee, type Trainee } from "./trainee/trainee.ts";
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

/** The part of a training that depends on the kind of its method. */
type MethodRun = {
  /** Null if the method draws no samples. */
  roller: Roller | null;
  /** Text for the log: exact or usual sampling. Null if the method draws no samples. */
  sampling: string | null;
  openMethod: OpenMethod;
  /** `prompts`: how many of them are sampled, at most. */
  preview: (world: World, prompts: number) => Promise<void>;
};

export type Opened = MethodRun & {
  trainee: Trainee;
  /** Null if the method does not compare with it. */
  reference: Reference | null;
  /** Null if the plan has none, or if it only draws. */
  teacher: Teacher | null;
  /** Current memory of models that only score. */
  frozenBytes: () => number;
  recipe: Recipe;
  close: () => Promise<void>;
};

/** Called in reverse order at the end. */
type Closing = (() => void | Promise<void>)[];

export const deviceOf = ({ gpus, threads }: Machine): Device =>
  gpus[0] === undefined ? { kind: "cpu", threads } : { kind: "cuda", index: gpus[0] };

export async function openTraining(setting: Setting): Promise<Opened> {
  const { plan, machine, onLoading } = setting;
  const closing: Closing = [];
  const close = async () => {
    for (const each of closing.reverse()) await each();
  };
  try {
    onLoading("reading", 0);
    const tokenizer = openTokenizer(machine.data_dir, plan.model_path, machine.gpus.length > 0);
    closing.push(tokenizer.close);
    const recipe = await METHODS[plan.method].open(plan, readingOf(setting, tokenizer, closing));
    onLoading("loading", 0);
    const choice = recipe.kind === "rolled" ? await chooseExact(setting, recipe.values) : null;
    const trainee = await openTrainee({
      ...modelOptions(setting, recipe),
      lora: plan.lora,
      seed: plan.seed,
      checkpointing: recipe.values.gradient_checkpointing,
      optim: recipe.values.optim,
      in4Bit: recipe.values.load_in_4bit,
      noiseAlpha: "neftune_noise_alpha" in recipe.values ? recipe.values.neftune_noise_alpha : null,
      exact: choice?.reason === null,
      divergence: divergenceOf(recipe.values),
      ...(setting.emulated ? { kernels: setting.emulated.kernels } : {}),
    });
    closing.push(() => trainee.close());
    if (plan.start_adapter !== undefined) trainee.startFrom(await readAdapterGguf(plan.start_adapter));
    const frozen: FrozenModel[] = [];
    const reference = await openReference(setting, { recipe, trainee, closing, frozen });
    const teacher = await openTeacher(setting, { recipe, trainee, closing, frozen });
    const frozenBytes = () => frozen.reduce((sum, { bytes }) => sum + bytes, 0);
    const run =
      recipe.kind === "rolled"
        ? await openRolledRun(setting, { recipe, trainee, choice, closing })
        : {
            roller: null,
            sampling: null,
            openMethod: recipe.open,
            preview: (world: World) => previewRows(world, recipe),
          };
    return { ...run, trainee, reference, teacher, frozenBytes, recipe, close };
  } catch (error) {
    await close();
    throw error;
  }
}

function readingOf({ plan, onLoading, onTurn }: Setting, tokenizer: Tokenizer, closing: Closing): Reading {
  const openSource = async (rows: TrainPlan["rows"]) => {
    const source = await openRowSource(rows, (fraction) => {
      onTurn();
      onLoading("reading", fraction);
    });
    closing.push(source.close);
    return source;
  };
  return {
    encoder: createEncoder(tokenizer, (plan.hyperparameters["chat_template_kwargs"] as Variables | undefined) ?? {}),
    contextLength: tokenizer.facts.contextLength,
    async read(make) {
      const open = async (rows: TrainPlan["rows"]) => make(await openSource(rows));
      const examples = await open(plan.rows);
      return { examples, heldOut: plan.eval_rows && (await open(plan.eval_rows).catch(ofHeldOut)) };
    },
  };
}

function ofHeldOut(error: unknown): never {
  if (!(error instanceof Trouble)) throw error;
  throw new Trouble(error.kind, `eval_dataset: ${error.message}`, { param: "eval_dataset" }, { cause: error });
}

const modelOptions = ({ plan, machine, ranks, onTurn }: Setting, { kind, values, maxLength }: Recipe) => ({
  usesTape: divergenceOf(values) !== null,
  dataDir: machine.data_dir,
  modelPath: plan.model_path,
  device: deviceOf(machine),
  maxLength,
  temperature: kind === "rolled" ? values.temperature : 1,
  microDivisor: plan.micro_divisor,
  ranks: ranks ?? null,
  onTurn,
});

type Loaded<R extends Recipe> = { recipe: R; trainee: Trainee; closing: Closing };

/** Without an adapter to switch off, the base model is loaded a second time. */
async function openReference(
  setting: Setting,
  { recipe, trainee, closing, frozen: all }: Loaded<Recipe> & { frozen: FrozenModel[] },
): Promise<Reference | null> {
  const { plan } = setting;
  const { values } = recipe;
  if (!usesReference(plan.method, "beta" in values ? values.beta : 0)) return null;
  if (plan.lora) return (pieces) => trainee.score(pieces, { reference: true });
  const frozen = await openFrozen(modelOptions(setting, recipe));
  closing.push(frozen.close);
  all.push(frozen);
  return frozen.score;
}

/** A second model. Both must have the same tokens, because it scores what the student wrote token by token. */
async function openTeacher(
  setting: Setting,
  { recipe, trainee, closing, frozen: all }: Loaded<Recipe> & { frozen: FrozenModel[] },
): Promise<Teacher | null> {
  const { teacher_path: modelPath } = setting.plan;
  if (modelPath === undefined) return null;
  const [tokens, own] = await Promise.all([await readModelFile(modelPath), trainee.file].map(tokenBytes));
  if (!Bun.deepEquals(tokens, own))
    throw new WorkerError("config", "teacher_model: has other tokens than base_model. Choose a teacher of its family");
  if (recipe.kind === "rolled" && isHard(recipe.values)) return null;
  const frozen = await openFrozen({ ...modelOptions(setting, recipe), modelPath });
  closing.push(frozen.close);
  all.push(frozen);
  if (divergenceOf(recipe.values) !== null) trainee.learnFrom(frozen.model);
  return frozen;
}

async function openRolledRun(
  setting: Setting,
  { recipe, trainee, choice, closing }: Loaded<RolledRecipe> & { choice: ExactChoice | null },
): Promise<MethodRun> {
  const { plan, machine, ranks, fresh, samplesPerStep } = setting;
  const sampler = await openSampler(setting, recipe, trainee);
  closing.push(sampler.close);
  const sampling = choice && exactLine(confirmExact(choice, trainee, sampler));
  const roller = ranks ? spreadRoller(sampler, ranks) : sampler;
  const sync = isHard(recipe.values) ? async () => {} : createSync({ trainee, roller, machine, plan, fresh });
  return {
    roller,
    sampling,
    openMethod: (world, resumed) => recipe.open(world, { roller, sync, samplesPerStep }, resumed),
    preview: (world, most) => previewRolled(world, { recipe, roller, seed: plan.seed, most }),
  };
}

function openSampler(setting: Setting, { values, maxLength }: RolledRecipe, trainee: Trainee): Promise<Roller> {
  const { plan, machine, onLoading } = setting;
  if (values.repetition_penalty !== 1)
    throw new WorkerError("config", "repetition_penalty must be 1: completions are drawn from the unchanged model");
  const drawn = isHard(values) && plan.teacher_path !== undefined ? plan.teacher_path : null;
  return openRoller({
    dataDir: machine.data_dir,
    modelPath: drawn ?? plan.model_path,
    contextLength: maxLength,
    parallel: rolloutSlots(values.generation_batch_size, deviceOf(machine).kind, plan.micro_divisor),
    threads: machine.threads,
    gpus: machine.gpus,
    kernels: drawn !== null || plan.lora === null || trainee.canMerge,
    ...(drawn === null ? { frozen: trainee.frozen } : {}),
    exact: drawn === null && trainee.isExact,
    ...setting.sampler,
    onProgress: (fraction) => onLoading("loading", Math.min(fraction, 1)),
  });
}
