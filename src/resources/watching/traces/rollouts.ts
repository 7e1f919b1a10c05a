/** Scored completions of a training step as traces. The reward is their score. */
import { and, eq } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { newId } from "../../../lib/ids.ts";
import type { Tx } from "../../../platform/db/db.ts";
import { preparedInsert } from "../../../platform/db/row.ts";
import { countScores } from "./counts.ts";
import { removeWhere } from "./remove.ts";
import { insertTraces, toRow } from "./store.ts";
import { traceScores, traces } from "./table.ts";

export type Rollouts = {
  workspaceId: string;
  jobId: string;
  step: number;
  model: string | null;
  samples: readonly {
    prompt?: unknown;
    completion: string;
    reward: number | null;
    tokens: number;
    truncated: boolean;
    error: string | null;
  }[];
};

const insertScore = preparedInsert(traceScores);

/** A step that was reported before is replaced. */
export function storeRollouts(ctx: Ctx, tx: Tx, { workspaceId, jobId, step, model, samples }: Rollouts) {
  removeWhere(tx, and(eq(traces.jobId, jobId), eq(traces.step, step)));
  const now = ctx.clock.now();
  for (const { prompt = null, completion, reward, tokens, truncated, error } of samples) {
    const failed = error !== null;
    const row = toRow(
      ctx,
      {
        workspaceId,
        source: "rollout",
        jobId,
        step,
        model,
        capture: "full",
        startedAt: now,
        durationMs: 0,
        status: failed ? 500 : 200,
        errorCode: failed ? "reward_error" : null,
        completionTokens: tokens,
        spans: [],
        metadata: { truncated },
        content: () => ({ input: prompt, output: [{ role: "assistant", content: completion }] }),
      },
      now,
    );
    const [traceSeq] = insertTraces(tx, [row]);
    if (reward === null || traceSeq === undefined) continue;
    insertScore(tx, {
      id: newId("scr", now),
      workspaceId,
      traceId: row.id,
      name: "reward",
      kind: "number",
      value: reward,
      traceSeq,
      traceAt: now,
      label: null,
      source: "code",
      evaluatorId: null,
      keyId: null,
      comment: null,
      createdAt: now,
    });
    countScores(tx, [{ workspaceId, name: "reward", traceAt: now, source: "rollout" }], 1);
  }
}
