/** The rewards of one run. The processes of their code, and the permits for them, are held as long as the run lives. */
import type { Ctx } from "../../../../context.ts";
import { AppError } from "../../../../lib/errors.ts";
import { actOf, toldOf } from "../../../../lib/rewards/acts.ts";
import { addScores } from "../../../../lib/rewards/combine.ts";
import type { Sample } from "../../../../lib/rewards/contract.ts";
import { openScorer } from "../../../../sandbox/reward/scorer.ts";
import { RewardRejected, type ScoredBatch, type Scorer } from "../../../../sandbox/reward/scorer_types.ts";
import type { FromTrainer, ToTrainer } from "../../../../workers/protocol_trainer.ts";
import { scoreSamples } from "../../../quality/evaluators/reward.ts";
import { withProcesses } from "../../reward_functions/processes.ts";
import { formatLocation } from "../../reward_functions/resolve.ts";
import type { JobRow } from "../table.ts";

type ScoreRequest = Extract<FromTrainer, { type: "score" }>;
type ActRequest = Extract<FromTrainer, { type: "act" }>;
type Answer = Extract<ToTrainer, { type: "scored" | "acted" | "unscored" }>;

export type Scoring = {
  /** Opens the processes, so that they are ready when the first samples come. */
  begin: () => void;
  /** Undefined if the scoring was closed meanwhile. */
  answer: (request: ScoreRequest | ActRequest) => Promise<Answer | undefined>;
  close: () => Promise<void>;
};

const RETRY_MS = 1_000;

export function scoringFor(ctx: Ctx, job: Pick<JobRow, "id" | "workspaceId" | "rewards">): Scoring {
  const { workspaceId } = job;
  const { parts, evaluators = [] } = job.rewards;
  const over = new AbortController();
  const signal = over.signal;
  const released = Promise.withResolvers<void>();
  let opened: Promise<Scorer> | undefined;
  let holding: Promise<unknown> = Promise.resolve();

  function open(): Promise<Scorer> {
    const ready = Promise.withResolvers<Scorer>();
    ready.promise.catch(() => {}); // answer() reports it
    holding = withScorer(ctx, job, signal, async (scorer) => {
      ready.resolve(scorer);
      await released.promise;
    }).catch(ready.reject);
    return ready.promise;
  }
  const get = () => {
    opened ??= open();
    return opened;
  };
  /** The code and the evaluators work at the same time. */
  async function score(samples: readonly Sample[]): Promise<Pick<ScoredBatch, "results" | "stdout">> {
    const byCode = parts.length > 0 ? get().then((scorer) => scorer.score(samples, signal)) : undefined;
    byCode?.catch(() => {}); // awaited below, unless the evaluators fail first
    if (evaluators.length === 0) return byCode ?? { results: [], stdout: "" };
    const judged = await scoreSamples(ctx, { workspaceId, rewards: evaluators, samples, signal });
    const batch = await byCode;
    return batch ? { ...batch, results: addScores(batch.results, judged) } : { results: judged, stdout: "" };
  }
  return {
    begin: () => void (parts.length > 0 && get()),
    async answer(request) {
      const { id } = request;
      try {
        if (request.type === "score")
          return { type: "scored", id, ...resultsOf(await score(request.samples.map(sampleOf))) };
        const scorer = await get();
        return { type: "acted", id, results: (await scorer.act(request.acts.map(actOf), signal)).map(toldOf) };
      } catch (error) {
        if (signal.aborted) return undefined;
        return { type: "unscored", id, message: messageOf(ctx, job, error) };
      }
    },
    async close() {
      over.abort(new Error("The run is over"));
      released.resolve();
      await holding;
    },
  };
}

/** Takes permits, then processes, and releases both after `work`. If all permits are in use, it retries. */
async function withScorer(
  ctx: Ctx,
  job: Pick<JobRow, "workspaceId" | "rewards">,
  signal: AbortSignal,
  work: (scorer: Scorer) => Promise<void>,
): Promise<void> {
  const { workspaceId } = job;
  const { parts } = job.rewards;
  const { sample_timeout_ms: sampleMs, batch_timeout_ms: batchMs } = ctx.config.sandbox;
  for (;;) {
    try {
      return await withProcesses(ctx, { workspaceId, signal }, parts.length, async () => {
        const scorer = await openScorer(ctx.rewards, { parts, limits: { sampleMs, batchMs }, signal });
        await work(scorer).finally(() => scorer.close());
      });
    } catch (error) {
      if (!(error instanceof AppError && error.code === "no_capacity")) throw error;
      await ctx.clock.sleep(RETRY_MS, signal);
      signal.throwIfAborted();
    }
  }
}

function sampleOf({ row, rollout, ...sample }: ScoreRequest["samples"][number]): Sample {
  const parsed = { ...sample, row: JSON.parse(row) as Record<string, unknown> };
  return rollout === undefined ? parsed : { ...parsed, rollout };
}

function resultsOf({
  results,
  stdout,
}: Pick<ScoredBatch, "results" | "stdout">): Omit<Extract<Answer, { type: "scored" }>, "type" | "id"> {
  return {
    results: results.map(({ reward, sub_rewards, weights, error }) => ({
      reward,
      sub_rewards,
      weights,
      error: error && `${error.reward}${error.line === null ? "" : `, line ${error.line}`}: ${error.message}`,
    })),
    latencies_ms: results.map(({ latency_ms }) => latency_ms),
    stdout,
  };
}

function messageOf(ctx: Ctx, job: Pick<JobRow, "id">, error: unknown): string {
  if (error instanceof RewardRejected)
    return `The reward ${error.part} cannot be run: ${formatLocation(error.rejection)}`;
  if (error instanceof AppError) return error.message;
  ctx.log.error("cannot run reward code", { job: job.id, error });
  return "The reward code could not be run; see the server's log";
}
