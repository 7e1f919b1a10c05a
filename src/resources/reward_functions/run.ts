/** One run: code over rows, each part in a process of its own, all of which are gone when it ends, however it ends. */
import type { Ctx } from "../../context.ts";
import { AppError } from "../../lib/errors.ts";
import { sampleOf } from "../../lib/rewards/samples.ts";
import { openScorer } from "../../sandbox/reward/scorer.ts";
import { type RewardPart, RewardRejected } from "../../sandbox/reward/scorer_types.ts";
import { gone } from "./check.ts";
import { holding } from "./holding.ts";
import { INLINE, placed } from "./resolve.ts";
import type { RewardRun } from "./schema.ts";

type Asked = {
  workspaceId: string;
  signal: AbortSignal;
  parts: readonly RewardPart[];
  rows: readonly Record<string, unknown>[];
};

export async function run(ctx: Ctx, { parts, rows, ...asker }: Asked): Promise<RewardRun> {
  const { signal } = asker;
  const { sample_timeout_ms: sampleMs, batch_timeout_ms: batchMs } = ctx.config.sandbox;
  try {
    return await holding(ctx, asker, parts.length, async () => {
      const scorer = await openScorer(ctx.rewards, { parts: [...parts], limits: { sampleMs, batchMs }, signal });
      try {
        const batch = await scorer.score(rows.map(sampleOf), signal);
        signal.throwIfAborted();
        return { object: "reward_run", ...batch };
      } finally {
        await scorer.close();
      }
    });
  } catch (error) {
    if (error instanceof RewardRejected) throw rejected(error, parts);
    throw gone(ctx, signal, error);
  }
}

/** What was uploaded has been checked: as a rule it is the code that came with the request. */
function rejected(error: RewardRejected, parts: readonly RewardPart[]): AppError {
  const at = parts[0]?.name === error.part && error.part === INLINE ? { param: "/source" } : {};
  return new AppError("reward_invalid", `${error.part} cannot be run: ${placed(error.rejection)}`, {
    ...at,
    cause: error,
  });
}
