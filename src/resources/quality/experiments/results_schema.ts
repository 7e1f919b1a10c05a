/** Items and the summary of an experiment, as callers see them. */
import { z } from "zod";
import { DateTime, isoOrNull, later } from "../../../lib/schema.ts";
import { isoTime } from "../../../lib/time.ts";
import { AnnotationLink } from "../annotation_queues/schema.ts";
import { isRegression } from "./policy.ts";
import { type ExperimentRow, type ItemRow, type ScoreRow, STATUSES } from "./table.ts";

const Figure = z.number().nullable();

const Score = later(() =>
  z.object({
    score: Figure.describe("Null: the evaluator failed or does not apply"),
    label: z.string().nullable(),
    passed: z.boolean().nullable(),
    reason: z.string().nullable(),
    error: z.string().nullable(),
    latency_ms: z.number(),
    baseline_score: Figure.describe("Of the baseline for the same row; null for the baseline itself"),
    regression: z.boolean().describe("Lower than the score of the baseline"),
  }),
);

export const ExperimentItem = later(() =>
  z
    .object({
      object: z.literal("experiment_item"),
      id: z.string(),
      experiment_id: z.string(),
      target: z.string(),
      row_id: z.int().describe("Row of the dataset"),
      input: z.union([z.string(), z.array(z.record(z.string(), z.unknown()))]),
      reference: z.string().nullable(),
      output: z.string().nullable(),
      baseline_output: z.string().nullable().describe("Null for the baseline itself"),
      scores: z.record(z.string(), Score).describe("By evaluator; empty until the item is scored"),
      regression: z.boolean().describe("At least one score is lower than that of the baseline"),
      latency_ms: Figure,
      prompt_tokens: z.int().nullable(),
      completion_tokens: z.int().nullable(),
      request_id: z.string().nullable().describe("The request to the deployment"),
      trace_id: z.string().nullable().describe("The trace of the request; it is removed after its retention"),
      annotation_items: z.array(AnnotationLink).describe("Items of annotation queues with this answer, newest first"),
      error: z.string().nullable(),
      error_code: z.string().nullable(),
      created_at: DateTime,
      finished_at: DateTime.nullable(),
    })
    .meta({ id: "ExperimentItem" }),
);
export type ExperimentItem = z.infer<typeof ExperimentItem>;

const Comparison = later(() =>
  z
    .object({
      pairs: z.int().describe("Rows that both targets have a score for"),
      mean_difference: z.number().describe("Target − baseline"),
      ci_low: Figure.describe("95 % interval of the difference"),
      ci_high: Figure,
      test: z
        .enum(["mcnemar", "sign_flip", "paired_t"])
        .describe("mcnemar if all scores are 0 or 1; paired_t above 1,000 pairs"),
      p_value: z.number().describe("Two-sided"),
      significant: z.boolean().describe("p_value < 0.05"),
      wins: z.int(),
      losses: z.int().describe("Regressions"),
      ties: z.int(),
    })
    .nullable(),
);

const EvaluatorFigures = later(() =>
  z.object({
    evaluator: z.string(),
    scored: z.int(),
    unscored: z.int().describe("Finished items without a score"),
    mean: Figure,
    ci_low: Figure.describe("95 % interval of the mean, by bootstrap"),
    ci_high: Figure,
    pass_rate: Figure.describe("Share of the items that passed, of those that the evaluator passed or failed"),
    comparison: Comparison.unwrap().describe("With the baseline; null for the baseline itself and without common rows"),
  }),
);

export const ExperimentSummary = later(() =>
  z
    .object({
      object: z.literal("experiment_summary"),
      experiment_id: z.string(),
      status: z.enum(STATUSES),
      baseline: z.string(),
      targets: z.array(
        z.object({
          target: z.string(),
          items: z.int().describe("Finished items"),
          errors: z.int(),
          latency_ms_p50: Figure,
          latency_ms_p95: Figure,
          prompt_tokens: z.int(),
          completion_tokens: z.int(),
          evaluators: z.array(EvaluatorFigures),
        }),
      ),
      winners: z
        .record(z.string(), z.string().nullable())
        .describe("By evaluator: the target that is significantly better; null if no difference is significant"),
    })
    .meta({ id: "ExperimentSummary" }),
);
export type ExperimentSummary = z.infer<typeof ExperimentSummary>;

/** An item, its scores, and the baseline's answer to the same row. */
export type ItemView = {
  item: ItemRow;
  scores: readonly ScoreRow[];
  annotations: AnnotationLink[];
  baseline: { output: string | null; scores: readonly ScoreRow[] } | undefined;
};

export function presentItem(
  experiment: ExperimentRow,
  { item, scores, annotations, baseline }: ItemView,
): ExperimentItem {
  const shown = scores.map((score) => {
    const other = baseline?.scores.find(({ evaluator }) => evaluator === score.evaluator)?.score ?? null;
    return [
      experiment.evaluators[score.evaluator]?.label ?? String(score.evaluator),
      {
        score: score.score,
        label: score.label,
        passed: score.passed,
        reason: score.reason,
        error: score.error,
        latency_ms: score.latencyMs,
        baseline_score: other,
        regression: isRegression(score.score, other),
      },
    ] as const;
  });
  return {
    object: "experiment_item",
    id: item.id,
    experiment_id: item.experimentId,
    target: experiment.targets[item.target]?.name ?? String(item.target),
    row_id: item.rowId,
    input: item.input,
    reference: item.reference,
    output: item.output,
    baseline_output: baseline?.output ?? null,
    scores: Object.fromEntries(shown),
    regression: shown.some(([, { regression }]) => regression),
    latency_ms: item.latencyMs,
    prompt_tokens: item.promptTokens,
    completion_tokens: item.completionTokens,
    request_id: item.requestId,
    trace_id: item.traceId,
    annotation_items: annotations,
    error: item.error,
    error_code: item.errorCode,
    created_at: isoTime(item.createdAt),
    finished_at: isoOrNull(item.finishedAt),
  };
}
