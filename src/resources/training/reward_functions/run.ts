/** Runs code over rows, each part in its own process. All processes are closed when the run ends, however it ends. */
import type { Ctx } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";
import { sampleOf } from "../../../lib/rewards/samples.ts";
import { openScorer } from "../../../sandbox/reward/scorer.ts";
import { type RewardPart, RewardRejected } from "../../../sandbox/reward/scorer_types.ts";
import { abortCause } from "./check.ts";
import { withProcesses } from "./processes.ts";
import { formatLocation, INLINE } from "./resolve.ts";
import type { RewardRun } from "./schema.ts";

type RunRequest = {
  workspaceId: string;
  signal: AbortSignal;
  parts: readonly RewardPart[];
  rows: readonly Record<string, unknown>[];
};

export async function run(ctx: Ctx, { parts, rows, ...caller }: RunRequest): Promise<RewardRun> {
  const { signal } = caller;
  const { sample_timeout_ms: sampleMs, batch_timeout_ms: batchMs } = ctx.config.sandbox;
  try {
    return await withProcesses(ctx, caller, parts.length, async () => {
      const scorer = await openScorer(ctx.rewards, { parts: [...parts], limits: { sampleMs, batchMs }, signal });
      try {
        const batch = await scorer.score(rows.map(sampleOf), signal);
        signal.throwIfAborted();
        const results = batch.results.map(({ weights: _, ...result }) => result);
        return { object: "reward_run", ...batch, results };
      } finally {
        await scorer.close();
      }
    });
  } catch (error) {
    if (error instanceof RewardRejected) throw rejected(error, parts);
    throw abortCause(ctx, signal, error);
  }
}

/** Uploaded code was loaded before, so usually the code in the request is at fault. */
function rejected(error: RewardRejected, parts: readonly RewardPart[]): AppError {
  const at = parts[0]?.name === error.part && error.part === INLINE ? { param: "/source" } : {};
  return new AppError("reward_invalid", `The reward ${error.part} cannot be run: ${formatLocation(error.rejection)}`, {
    ...at,
    cause: error,
  });
}
