/** Several named rewards over the samples of one job, each in a process of its own. */
import type * as combine from "../../lib/rewards/combine.ts";
import type { Entrypoint, Rejection, RewardCode, Sample } from "../../lib/rewards/contract.ts";

export type RewardPart = {
  /** Of the uploaded function, the ready reward or the job's own source. */
  name: string;
  code: RewardCode;
  weight: number;
  /** For one sample; undefined = the operator's. */
  timeoutMs?: number;
};

/** Named `part` where a part has one function named reward, else `part/function`. */
export type Scored = combine.Scored;
export type ScoreSummary = combine.ScoreSummary;
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
