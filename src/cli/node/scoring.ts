/** Scores completions on the node, in the sandbox of the node. */

import { actOf, toldOf } from "../../lib/rewards/acts.ts";
import type { NodePlan } from "../../platform/providers/protocol.ts";
import { openScorer } from "../../sandbox/reward/scorer.ts";
import { type RewardPart, RewardRejected, type Scorer } from "../../sandbox/reward/scorer_types.ts";
import type { RewardPool } from "../../sandbox/reward/types.ts";
import type { FromTrainer, ToTrainer } from "../../workers/protocol_trainer.ts";

type Request = Extract<FromTrainer, { type: "score" | "act" }>;
type Answer = Extract<ToTrainer, { type: "scored" | "acted" | "unscored" }>;

export type Scoring = { answer: (request: Request) => Promise<Answer | undefined>; close: () => Promise<void> };

export function openScoring(pool: RewardPool, { rewards, limits }: NodePlan): Scoring {
  const over = new AbortController();
  const { signal } = over;
  const parts = (rewards ?? []) as RewardPart[]; // checked by the server of the same version
  let opened: Promise<Scorer> | undefined;
  const get = () => {
    opened ??= openScorer(pool, { parts, limits, signal });
    return opened;
  };
  if (parts.length > 0) get().catch(() => {}); // answer() reports it
  return {
    async answer(request) {
      const { id } = request;
      try {
        const scorer = await get();
        if (request.type === "act")
          return { type: "acted", id, results: (await scorer.act(request.acts.map(actOf), signal)).map(toldOf) };
        const parsed = request.samples.map(({ row, rollout, ...rest }) => ({
          ...rest,
          row: JSON.parse(row) as Record<string, unknown>,
          ...(rollout === undefined ? {} : { rollout }),
        }));
        const { results, stdout } = await scorer.score(parsed, signal);
        return {
          type: "scored",
          id,
          stdout,
          latencies_ms: results.map(({ latency_ms }) => latency_ms),
          results: results.map(({ reward, sub_rewards, weights, error }) => ({
            reward,
            sub_rewards,
            weights,
            error: error && `${error.reward}${error.line === null ? "" : `, line ${error.line}`}: ${error.message}`,
          })),
        };
      } catch (error) {
        if (signal.aborted) return undefined;
        return { type: "unscored", id, message: messageOf(error) };
      }
    },
    async close() {
      over.abort(new Error("The run is over"));
      await opened?.then(
        (scorer) => scorer.close(),
        () => {},
      );
      await pool.close();
    },
  };
}

const messageOf = (error: unknown) =>
  error instanceof RewardRejected
    ? `The reward ${error.part} cannot be run: ${error.message}`
    : error instanceof Error
      ? error.message
      : String(error);
