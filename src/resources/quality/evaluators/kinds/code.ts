/** The kinds that run code in the reward sandbox: code, reward_function and json_schema. */
import type { Ctx } from "../../../../context.ts";
import { AppError } from "../../../../lib/errors.ts";
import type { RewardPart } from "../../../../sandbox/reward/scorer_types.ts";
import { resolveOne } from "../../../training/reward_functions/resolve.ts";
import { run } from "../../../training/reward_functions/run.ts";
import { settingsOf } from "../config.ts";
import { type EvaluationItem, failed, scored, type Verdict } from "../item.ts";
import type { Evaluation } from "../run.ts";
import { sourceOf } from "../service.ts";
import type { EvaluatorVersion } from "../table.ts";

const SEED = 0;

/** Null for the kinds that need no code. */
export function partOf(ctx: Ctx, workspaceId: string, evaluator: EvaluatorVersion): Omit<RewardPart, "weight"> | null {
  const settings = settingsOf(evaluator);
  const { name } = evaluator;
  if (settings.kind === "code") {
    const { language, params, timeout_seconds: seconds } = settings.config;
    return {
      name,
      code: { language, source: sourceOf(ctx, evaluator.id), params, seed: SEED },
      timeoutMs: seconds * 1000,
    };
  }
  const at = { id: "/config/reward_function", params: "/config/params" };
  const resolve = (id: string, params: Record<string, unknown>) => {
    const { weight: _, ...part } = resolveOne(ctx, workspaceId, { id, params, seed: SEED, at });
    return { ...part, name };
  };
  if (settings.kind === "reward_function") return resolve(settings.config.reward_function, settings.config.params);
  if (settings.kind === "json_schema") return resolve("json_schema", { ...settings.config });
  return null;
}

/** The columns that code sees. A column of the row wins over `reference`, but not over prompt and completion. */
const rowOf = ({ input, output, reference, row }: EvaluationItem): Record<string, unknown> => ({
  ...(reference === undefined || reference === null ? {} : { reference, answer: reference }),
  ...row,
  prompt: input,
  completion: output,
});

/** A row may have a schema of its own. The code takes a column from all rows or from none. */
const withSchema =
  (schema: object) =>
  ({ input, output, row }: EvaluationItem) => ({
    prompt: input,
    completion: output,
    schema: row?.["schema"] ?? schema,
  });

export async function runCode(ctx: Ctx, { workspaceId, evaluator, items, signal }: Evaluation): Promise<Verdict[]> {
  const part = partOf(ctx, workspaceId, evaluator);
  if (!part) throw new Error(`an evaluator of the kind ${evaluator.kind} has no code`);
  const parts = [{ ...part, weight: 1 }];
  const settings = settingsOf(evaluator);
  const rows = items.map(settings.kind === "json_schema" ? withSchema(settings.config.schema) : rowOf);
  const { results } = await run(ctx, { workspaceId, signal, parts, rows });
  if (results.length !== items.length) throw new AppError("internal", "The sandbox lost a row: try again");
  return results.map(({ reward, error, latency_ms: ms }) =>
    reward === null ? failed(error?.message ?? "The code returned no score", ms) : scored(reward, ms),
  );
}
