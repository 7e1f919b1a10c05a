/** The loop's dependencies: the world around it, and a method. */

import type { FromTrainer, ToTrainer, TrainSample } from "../../protocol_trainer.ts";
import type { OrderState } from "../data/order.ts";
import type { Ranks } from "../ranks/types.ts";
import type { Trainee } from "../trainee/trainee.ts";

export type ScoreSample = Extract<FromTrainer, { type: "score" }>["samples"][number];
export type ScoreAnswer = Pick<Extract<ToTrainer, { type: "scored" }>, "results" | "latencies_ms" | "stdout">;
export type Score = (step: number, samples: readonly ScoreSample[]) => Promise<ScoreAnswer>;
/** Scores under the model before training. */
export type Reference = (pieces: Parameters<Trainee["score"]>[0]) => ReturnType<Trainee["score"]>;

export type World = {
  trainee: Trainee;
  /** The other processes of this training, which run the same loop. Null: there are none. */
  ranks: Ranks | null;
  /** Null if the method does not compare with it. */
  reference: Reference | null;
  score: Score;
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
  readonly totalSteps: number;
  /** Sums the gradients of one step in the trainee. `step`: steps completed before. */
  gather: (step: number) => Promise<Gathered>;
  /** Metrics of the held-out rows; null if there are none. */
  evaluate: ((step: number) => Promise<Record<string, number>>) | null;
  /** Epochs passed so far. */
  epoch: () => number;
  order: () => OrderState;
  /** The rest of a generation, to be stored beside the state; null: nothing. */
  left: () => string | null;
  /** A sentence about rows that no step uses; null if there are none. */
  readonly warning: string | null;
};

export type Resumed = { order: OrderState; left: string | null };
export type OpenMethod = (world: World, resumed: Resumed | null) => Method;
