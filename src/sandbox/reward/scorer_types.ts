/** Types of a scorer, which runs several named rewards over the samples of one job. */
import type * as combine from "../../lib/rewards/combine.ts";
import type { Act, Acted, Entrypoint, Rejection, RewardCode, Sample } from "../../lib/rewards/contract.ts";

export type RewardPart = {
  /** Name of the uploaded function, of the built-in reward, or of the job's own source. */
  name: string;
  code: RewardCode;
  weight: number;
  /** For one sample; by default the setting of the server. */
  timeoutMs?: number;
};

/** Its rewards are named `part` if the part has one function named reward, else `part/function`. */
export type Scored = combine.Scored;
export type ScoreSummary = combine.ScoreSummary;
export type ScoredBatch = { results: Scored[]; summary: ScoreSummary; stdout: string };

export type Scorer = {
  readonly entrypoints: readonly { part: string; entrypoint: Entrypoint }[];
  /** Rollouts of the samples end with it. */
  score: (samples: readonly Sample[], signal?: AbortSignal) => Promise<ScoredBatch>;
  /** For code with environments: the rewards have at most one part that has some. */
  act: (acts: readonly Act[], signal?: AbortSignal) => Promise<Acted[]>;
  close: () => Promise<void>;
};

/** The code of a part cannot be loaded. */
export class RewardRejected extends Error {
  constructor(
    readonly part: string,
    readonly rejection: Rejection,
  ) {
    super(rejection.message);
    this.name = "RewardRejected";
  }
}
