/** Runs an evaluator over items. */
import type { Ctx } from "../../../context.ts";
import { settingsOf } from "./config.ts";
import type { EvaluationItem, EvaluationResult, Verdict } from "./item.ts";
import { runCode } from "./kinds/code.ts";
import { judge } from "./kinds/judge.ts";
import { similarity } from "./kinds/similarity.ts";
import { stringCheck } from "./kinds/string_check.ts";
import type { EvaluatorVersion } from "./table.ts";

/**
 * One result for each item, in order. A problem of one item is an error of its result. Throws if the evaluator itself
 * cannot be run, for example because its deployment does not exist, and the reason of `signal` if that aborts.
 */
export async function run(
  ctx: Ctx,
  workspaceId: string,
  evaluator: EvaluatorVersion,
  items: readonly EvaluationItem[],
  signal: AbortSignal,
): Promise<EvaluationResult[]> {
  if (items.length === 0) return [];
  const verdicts = await verdictsOf(ctx, { workspaceId, evaluator, items, signal });
  return verdicts.map((verdict) => ({ ...verdict, passed: passedOf(evaluator, verdict) }));
}

export type Evaluation = {
  workspaceId: string;
  evaluator: EvaluatorVersion;
  items: readonly EvaluationItem[];
  signal: AbortSignal;
};

function verdictsOf(ctx: Ctx, evaluation: Evaluation): Promise<Verdict[]> {
  const settings = settingsOf(evaluation.evaluator);
  switch (settings.kind) {
    case "string_check":
      return stringCheck(settings.config, evaluation);
    case "similarity":
      return similarity(ctx, settings.config, evaluation);
    case "llm_judge":
      return judge(ctx, settings.config, evaluation);
    default:
      return runCode(ctx, evaluation);
  }
}

/** Checks pass with a score of 1 unless the evaluator has another threshold. */
function passedOf({ kind, passThreshold }: EvaluatorVersion, { score }: Verdict): boolean | null {
  const threshold = passThreshold ?? (kind === "string_check" || kind === "json_schema" ? 1 : null);
  return score === null || threshold === null ? null : score >= threshold;
}
