/** The loop's dependencies: the world around it, and a method. */

import type { Environment } from "../../../lib/rewards/contract.ts";
import type { Method as MethodName, RolledMethod } from "../../../lib/training/fields.ts";
import type { Resolved } from "../../../lib/training/resolve.ts";
import type { FromTrainer, ToTrainer, TrainPlan, TrainSample } from "../../protocol_trainer.ts";
import type { CurriculumState } from "../data/curriculum.ts";
import type { Encoder } from "../data/encode.ts";
import type { Examples, Prompt } from "../data/examples.ts";
import type { OrderState } from "../data/order.ts";
import type { RowSource } from "../data/rows.ts";
import type { Ranks } from "../ranks/types.ts";
import type { Roller } from "../rollouts/types.ts";
import type { FrozenModel } from "../trainee/frozen.ts";
import type { Trainee } from "../trainee/trainee.ts";
import type { Piece } from "../trainee/types.ts";
import type { ActAll } from "./turns.ts";

/** Methods that draw rows of a dataset in epochs. */
export type RowMethod = Exclude<MethodName, RolledMethod>;
export type RolledValues = Resolved<RolledMethod>;

export type ScoreSample = Extract<FromTrainer, { type: "score" }>["samples"][number];
export type ScoreAnswer = Pick<Extract<ToTrainer, { type: "scored" }>, "results" | "latencies_ms" | "stdout">;
export type Score = (step: number, samples: readonly ScoreSample[]) => Promise<ScoreAnswer>;
/** Scores under another model: the one before training, or a teacher. */
export type Reference = (pieces: Parameters<Trainee["score"]>[0]) => ReturnType<Trainee["score"]>;

export type Teacher = {
  score: Reference;
  /** Log-probabilities, and the inputs of its output layer at each scored token. */
  states: FrozenModel["states"];
};

export type World = {
  trainee: Trainee;
  /** The other processes of this training, which run the same loop. Null: there are none. */
  ranks: Ranks | null;
  /** Null if the method does not compare with it. */
  reference: Reference | null;
  /** Null if the method has none, or if the teacher only draws. */
  teacher: Teacher | null;
  /** Null if completions have no rewards. */
  score: Score | null;
  /** Lets something happen in rollouts of several turns. */
  act: ActAll;
  send: (message: FromTrainer) => void;
  /** Stop now, without saving. */
  signal: AbortSignal;
  /** True: save after this step and end. */
  isEnding: () => boolean;
  /** Current time in milliseconds. */
  now: () => number;
  /** Current memory of both models. */
  memoryBytes: () => number;
  isOnGpu: boolean;
};

/** Result of gathering one optimizer step. */
export type Gathered = {
  /** Metrics with TRL's keys. Without `update_time` the whole time to gather counts as it. */
  metrics: Record<string, number>;
  loss: number;
  /** Number of tokens that the model saw. */
  tokens: number;
  /** Null if the method has no advantages. */
  maxAdvantage: number | null;
  samples: TrainSample[];
};

export type Method = {
  /** Its hyperparameters. */
  readonly values: Resolved<MethodName>;
  readonly totalSteps: number;
  /** Sums the gradients of one step in the trainee. `step`: steps completed before. */
  gather: (step: number) => Promise<Gathered>;
  /** Metrics of the held-out rows; null if there are none. */
  evaluate: ((step: number) => Promise<Record<string, number>>) | null;
  /** Epochs passed so far. */
  epoch: () => number;
  order: () => OrderState;
  /** History of the prompts, from which the next ones are chosen. Null: they are not. */
  curriculum: () => CurriculumState | null;
  /** The rest of a generation, to be stored beside the state; null: nothing. */
  left: () => string | null;
  /** A sentence about rows that no step uses; null if there are none. */
  readonly warning: string | null;
};

export type Resumed = { order: OrderState; curriculum: CurriculumState | null; left: string | null };
export type OpenMethod = (world: World, resumed: Resumed | null) => Method;

/** Examples for training and held-out ones. */
export type Split<T> = { examples: Examples<T>; heldOut: Examples<T> | null };

/** Opens the rows of a plan as the examples of a method. */
export type Reading = {
  encoder: Encoder;
  contextLength: number;
  read: <T>(make: (source: RowSource) => Promise<Examples<T>>) => Promise<Split<T>>;
};

/** The engine that draws samples. `sync` copies the current weights to it. */
export type Sampler = { roller: Roller; sync: () => Promise<void> };

/** Rollouts of several turns. */
export type Turns = { encoder: Encoder; environments: readonly Environment[]; maxTurns: number; maxTokens: number };

type AnyRecipe = {
  /** Tokens of the longest sequence of the training. */
  readonly maxLength: number;
  /** Text for the log: the number of rows. */
  readonly rows: string;
};

export type RowRecipe = AnyRecipe & {
  readonly kind: "rows";
  readonly values: Resolved<RowMethod>;
  readonly count: number;
  /** The units of pieces that one example is learned as. */
  units: (index: number) => Piece[][];
  open: OpenMethod;
};

export type RolledRecipe = AnyRecipe & {
  readonly kind: "rolled";
  readonly values: RolledValues;
  readonly prompts: Examples<Prompt>;
  /** Null: a completion is one answer. */
  readonly turns: Turns | null;
  /** `samplesPerStep`: scored completions to report for each step. */
  open: (world: World, sampler: Sampler & { samplesPerStep: number }, resumed: Resumed | null) => Method;
};

/** A method with its hyperparameters and its rows. No model is loaded yet. */
export type Recipe = RowRecipe | RolledRecipe;

export type MethodKind = { open: (plan: TrainPlan, reading: Reading) => Promise<Recipe> };
