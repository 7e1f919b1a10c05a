/** Several named rewards over the samples of one job, each in a process of its own. */
import type { Entrypoint, Fault, Rejection, RewardCode, Sample } from "../lib/rewards/contract.ts";

export type RewardPart = {
  /** Of the uploaded function, the ready reward or the job's own source. */
  name: string;
  code: RewardCode;
  weight: number;
  /** For one sample; undefined = the operator's. */
  timeoutMs?: number;
};

/** One sample. `sub_rewards` has a name for every function: `part` where a part has one function named reward, else `part/function`. */
export type Scored = {
  index: number;
  /** Weighted sum; null when a function failed for this sample, or every one returned None. */
  reward: number | null;
  sub_rewards: Record<string, number | null>;
  latency_ms: number;
  /** The first that is not `none`. */
  error: (Fault & { reward: string }) | null;
};

export type ScoreSummary = {
  count: number;
  scored: number;
  mean: number | null;
  std: number | null;
  min: number | null;
  max: number | null;
  /** By kind of fault, only those that occurred. */
  faults: Record<string, number>;
  latency_ms_p50: number | null;
  latency_ms_p95: number | null;
};

export type ScoredBatch = { results: Scored[]; summary: ScoreSummary; stdout: string };

export type Scorer = {
  readonly entrypoints: readonly { part: string; entrypoint: Entrypoint }[];
  score: (samples: readonly Sample[], signal?: AbortSignal) => Promise<ScoredBatch>;
  close: () => Promise<void>;
};

/** The code of a part cannot be used. */
export class RewardRejected extends Error {
  constructor(
    readonly part: string,
    readonly rejection: Rejection,
  ) {
    super(rejection.message);
    this.name = "RewardRejected";
  }
}
