/** What the loop needs of the world, and what it needs of a method. */

import type { FromTrainer, ToTrainer, TrainSample } from "../../protocol_trainer.ts";
import type { OrderState } from "../data/order.ts";
import type { Trainee } from "../trainee/types.ts";

export type ScoreSample = Extract<FromTrainer, { type: "score" }>["samples"][number];
export type ScoreAnswer = Pick<Extract<ToTrainer, { type: "scored" }>, "results" | "latencies_ms" | "stdout">;
export type Score = (step: number, samples: readonly ScoreSample[]) => Promise<ScoreAnswer>;
/** How the model was before the training. */
export type Reference = (pieces: Parameters<Trainee["score"]>[0]) => ReturnType<Trainee["score"]>;

export type World = {
  trainee: Trainee;
  /** Null where nothing is compared with it. */
  reference: Reference | null;
  score: Score;
  tell: (message: FromTrainer) => void;
  /** Stop now: nothing is saved any more. */
  signal: AbortSignal;
  /** Save after this step and end. */
  isEnding: () => boolean;
  /** Milliseconds. */
  now: () => number;
  /** Of both models, right now. */
  memoryBytes: () => number;
  isOnGpu: boolean;
};

/** What one step of the optimizer is made of. */
export type Gathered = {
  /** With the keys of TRL. */
  metrics: Record<string, number>;
  loss: number;
  /** That the model saw. */
  tokens: number;
  /** Null where the method has none. */
  maxAdvantage: number | null;
  samples: TrainSample[];
};

export type Method = {
  readonly totalSteps: number;
  /** Gradients of one step, added up in the trainee. `step`: completed before it. */
  gather: (step: number) => Promise<Gathered>;
  /** Metrics over the rows held out; null where there are none. */
  evaluate: ((step: number) => Promise<Record<string, number>>) | null;
  /** Passed so far. */
  epoch: () => number;
  order: () => OrderState;
  /** What is left of a generation, to be put beside the state; null: nothing. */
  left: () => string | null;
  /** Words on rows that no step will see; null: there are none. */
  readonly warning: string | null;
};

export type Resumed = { order: OrderState; left: string | null };
export type OpenMethod = (world: World, resumed: Resumed | null) => Method;
