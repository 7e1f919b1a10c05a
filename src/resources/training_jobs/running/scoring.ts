/** The reward code of one run: its processes are kept for the run's life, and with them their places. */

import type { Ctx } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";
import type { Sample } from "../../../lib/rewards/contract.ts";
import { openScorer } from "../../../sandbox/reward/scorer.ts";
import { RewardRejected, type ScoredBatch, type Scorer } from "../../../sandbox/reward/scorer_types.ts";
import type { FromTrainer, ToTrainer } from "../../../workers/protocol_trainer.ts";
import * as rewardProcesses from "../../reward_functions/holding.ts";
import * as rewardCode from "../../reward_functions/resolve.ts";
import type { JobRow } from "../table.ts";

type Score = Extract<FromTrainer, { type: "score" }>;
type Answer = Extract<ToTrainer, { type: "scored" | "unscored" }>;

export type Scoring = {
  /** Opens the processes, so that they are there when the first samples come. */
  begin: () => void;
  /** Undefined: it was closed meanwhile. */
  answer: (asked: Score) => Promise<Answer | undefined>;
  close: () => Promise<void>;
};

const AGAIN_MS = 1_000;

export function scoringFor(ctx: Ctx, job: Pick<JobRow, "id" | "workspaceId" | "rewards">): Scoring {
  const over = new AbortController();
  const signal = over.signal;
  const released = Promise.withResolvers<void>();
  let opened: Promise<Scorer> | undefined;
  let held: Promise<unknown> = Promise.resolve();

  function open(): Promise<Scorer> {
    const ready = Promise.withResolvers<Scorer>();
    ready.promise.catch(() => {}); // told to whoever asks
    held = hold(ctx, job, signal, async (scorer) => {
      ready.resolve(scorer);
      await released.promise;
    }).catch(ready.reject);
    return ready.promise;
  }
  const get = () => {
    opened ??= open();
    return opened;
  };
  return {
    begin: () => void get(),
    async answer({ id, samples }) {
      try {
        const scorer = await get();
        return { type: "scored", id, ...told(await scorer.score(samples.map(sampleOf), signal)) };
      } catch (error) {
        if (signal.aborted) return undefined;
        return { type: "unscored", id, message: wordsOf(ctx, job, error) };
      }
    },
    async close() {
      over.abort(new Error("The run is over"));
      released.resolve();
      await held;
    },
  };
}

/** Places, then processes; both are given back when `work` is over. A full house is waited for. */
async function hold(
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
      return await rewardProcesses.holding(ctx, { workspaceId, signal }, parts.length, async () => {
        const scorer = await openScorer(ctx.rewards, { parts, limits: { sampleMs, batchMs }, signal });
        await work(scorer).finally(() => scorer.close());
      });
    } catch (error) {
      if (!(error instanceof AppError && error.code === "no_capacity")) throw error;
      await ctx.clock.sleep(AGAIN_MS, signal);
      signal.throwIfAborted();
    }
  }
}

function sampleOf({ prompt, completion, row }: Score["samples"][number]): Sample {
  return { prompt, completion, row: JSON.parse(row) as Record<string, unknown> };
}

function told({ results, stdout }: ScoredBatch): Omit<Extract<Answer, { type: "scored" }>, "type" | "id"> {
  return {
    results: results.map(({ reward, sub_rewards, error }) => ({
      reward,
      sub_rewards,
      error: error && `${error.reward}${error.line === null ? "" : `, line ${error.line}`}: ${error.message}`,
    })),
    latencies_ms: results.map(({ latency_ms }) => latency_ms),
    stdout,
  };
}

function wordsOf(ctx: Ctx, job: Pick<JobRow, "id">, error: unknown): string {
  if (error instanceof RewardRejected) return `${error.part} cannot be run: ${rewardCode.placed(error.rejection)}`;
  if (error instanceof AppError) return error.message;
  ctx.log.error("reward code could not be run", { job: job.id, error });
  return "The reward code could not be run; the log of the server has the details";
}
