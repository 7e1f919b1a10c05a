import { z } from "zod";
import { isId } from "../../../lib/ids.ts";
import { summaryOf } from "../../../lib/rewards/evaluation.ts";
import { DateTime, Label, later, Metadata } from "../../../lib/schema.ts";
import { isoTime } from "../../../lib/time.ts";
import * as config from "./config.ts";
import type { EvaluationItem, EvaluationResult } from "./item.ts";
import type { EvaluatorRow } from "./table.ts";

export const MAX_ROWS = 1_000;

export const Evaluator = later(() =>
  z
    .object({
      object: z.literal("evaluator"),
      id: z.string(),
      name: z.string(),
      version: z.int(),
      kind: z.enum(config.KINDS),
      description: z.string().nullable(),
      config: z.record(z.string(), z.unknown()).describe("Settings of the kind. Lists leave out the source of code"),
      pass_threshold: z.number().nullable(),
      metadata: z.record(z.string(), z.string()),
      created_at: DateTime,
    })
    .meta({ id: "Evaluator" }),
);
export type Evaluator = z.infer<typeof Evaluator>;

/** A name is part of a URL and may be followed by @version, so it has no / and no @ and does not look like an id. */
const Name = later(() =>
  Label(100)
    .refine((text) => /^[\p{L}\p{N}][^/@]*$/u.test(text), "must begin with a letter or digit and contain no / or @")
    .refine((text) => !isId(text, "evl"), "must not look like an id"),
);

const fields = () => ({
  name: Name,
  description: Label(2000).nullish(),
  metadata: Metadata.optional(),
  pass_threshold: z.number().nullish().describe("A score of at least this passes. Checks pass with 1 by default"),
});
const ofKind = <K extends (typeof config.KINDS)[number], C extends z.ZodType>(kind: K, settings: C) =>
  z.object({ ...fields(), kind: z.literal(kind), config: settings });

export const CreateEvaluator = later(() =>
  z
    .discriminatedUnion(
      "kind",
      [
        ofKind("code", config.CodeConfig),
        ofKind("reward_function", config.RewardFunctionConfig),
        ofKind("string_check", config.StringCheckConfig),
        ofKind("json_schema", config.JsonSchemaConfig),
        ofKind("similarity", config.SimilarityConfig),
        ofKind("llm_judge", config.JudgeConfig),
      ],
      { error: ({ code }) => (code === "invalid_union" ? `must be one of ${config.KINDS.join(", ")}` : undefined) },
    )
    .meta({ id: "CreateEvaluator" }),
);
export type CreateEvaluator = z.output<typeof CreateEvaluator>;

const Message = later(() => z.object({ role: z.string().min(1).max(64), content: z.string() }));

const Row = later(() =>
  z
    .object({
      input: z.union([z.string(), z.array(Message).max(1000)]).default(""),
      output: z.string().describe("The answer to evaluate"),
      reference: z.string().nullish().describe("The right answer, if there is one"),
      other: z.string().nullish().describe("A second answer for a pairwise judge. Default: the reference"),
    })
    .catchall(z.unknown())
    .meta({ id: "EvaluationRow" }),
);

export const RunEvaluator = later(() =>
  z
    .object({ rows: z.array(Row).min(1).max(MAX_ROWS).describe("Code sees every other column of a row too") })
    .meta({ id: "RunEvaluator" }),
);
export type RunEvaluator = z.output<typeof RunEvaluator>;

const Figure = z.number().nullable();
export const EvaluatorRun = later(() =>
  z
    .object({
      object: z.literal("evaluator_run"),
      evaluator_id: z.string(),
      results: z.array(
        z.object({
          index: z.int(),
          score: Figure.describe("Null if there is no score: see error"),
          label: z.string().nullable(),
          passed: z.boolean().nullable().describe("Null without a score, or without a threshold"),
          reason: z.string().nullable(),
          error: z.string().nullable(),
          latency_ms: z.number(),
        }),
      ),
      summary: z.object({
        count: z.int(),
        scored: z.int(),
        failed: z.int().describe("Rows without a score"),
        mean: Figure,
        pass_rate: Figure.describe("Share of the rows with a decision that passed"),
      }),
    })
    .meta({ id: "EvaluatorRun" }),
);
export type EvaluatorRun = z.infer<typeof EvaluatorRun>;

/** `source`: of the kind `code`; null leaves it out. */
export const present = (row: EvaluatorRow, source: string | null): Evaluator => ({
  object: "evaluator",
  id: row.id,
  name: row.name,
  version: row.version,
  kind: row.kind,
  description: row.description,
  config: { ...(source === null ? {} : { source }), ...row.config },
  pass_threshold: row.passThreshold,
  metadata: row.metadata,
  created_at: isoTime(row.createdAt),
});

export const itemOf = ({ input, output, reference, other, ...row }: RunEvaluator["rows"][number]): EvaluationItem => ({
  input,
  output,
  row,
  reference: reference ?? null,
  other: other ?? null,
});

export function presentRun(evaluatorId: string, results: readonly EvaluationResult[]): EvaluatorRun {
  return {
    object: "evaluator_run",
    evaluator_id: evaluatorId,
    results: results.map(({ latencyMs, ...result }, index) => ({ index, ...result, latency_ms: latencyMs })),
    summary: summaryOf(results),
  };
}
