import { z } from "zod";
import { PageQuery } from "../../../http/answer/pagination.ts";
import { usdOf } from "../../../lib/money.ts";
import { DateTime, Label, later, numberText } from "../../../lib/schema.ts";
import { isoTime } from "../../../lib/time.ts";
import { AnnotationLink } from "../../quality/annotation_queues/schema.ts";
import { PatternError } from "../../quality/patterns/parse.ts";
import { MAX_PATTERNS, Redactor } from "./redact.ts";
import {
  CAPTURES,
  SCORE_KINDS,
  SCORE_SOURCES,
  type ScoreRow,
  SPAN_NAMES,
  TRACE_SOURCES,
  type TraceRow,
} from "./table.ts";

/** Each pattern alone, so that the error names the bad one, then all together. */
export const RedactPatterns = later(() =>
  z
    .array(z.string().min(1))
    .max(MAX_PATTERNS)
    .superRefine((patterns, { addIssue }) => {
      const check = (some: readonly string[], path: (number | string)[]) => {
        try {
          new Redactor(some);
          return true;
        } catch (error) {
          if (!(error instanceof PatternError)) throw error;
          addIssue({ code: "custom", path, message: `the pattern ${error.message}` });
          return false;
        }
      };
      if (patterns.every((pattern, index) => check([pattern], [index]))) check(patterns, []);
    }),
);

const summary = () => ({
  id: z.string(),
  object: z.literal("trace"),
  source: z.enum(TRACE_SOURCES),
  deployment_id: z.string().nullable(),
  job_id: z.string().nullable().describe("The training job of a rollout"),
  step: z.int().nullable(),
  key_id: z.string().nullable(),
  agent_id: z.string().nullable(),
  agent_version: z.int().nullable(),
  conversation_id: z.string().nullable(),
  model: z.string().nullable(),
  adapter: z.string().nullable(),
  capture: z.enum(CAPTURES).describe("How much this trace keeps. Content over 1 MiB is not kept"),
  status: z.int().describe("The HTTP status of the answer; 499 if the client closed its connection"),
  error_code: z.string().nullable(),
  started_at: DateTime,
  duration_ms: z.number(),
  ttft_ms: z.number().nullable().describe("Time to the first token"),
  prompt_tokens: z.int(),
  cached_tokens: z.int(),
  completion_tokens: z.int(),
  metadata: z.record(z.string(), z.string()),
  user: z.string().nullable().describe("user of the request, or user_id or user of its metadata, if captured"),
  tags: z.array(z.string()).describe("tags of the metadata, if captured: a list, or a text with commas"),
  input_start: z.string().nullable().describe("The first words of the last message of the user, if content is kept"),
  output_start: z.string().nullable().describe("The first words of the answer, if content is kept"),
  cost_usd: z
    .number()
    .nullable()
    .describe("An estimate: the price of the deployment for the time of the request, shared with those beside it"),
  created_at: DateTime.describe("The time at which the trace was recorded: the end of the request"),
});

export const TraceSummary = later(() =>
  z
    .object({
      ...summary(),
      scores: z
        .array(z.object({ name: z.string(), value: z.union([z.number(), z.boolean(), z.string()]) }))
        .describe("The newest score of each name"),
    })
    .meta({ id: "TraceSummary" }),
);

export const TraceList = later(() =>
  z
    .object({
      object: z.literal("list"),
      data: z.array(TraceSummary),
      has_more: z.boolean().describe("There may be more traces. The page may be short or empty meanwhile"),
      next_after: z.string().nullable().describe("The value of after for the next page. Null if there is none"),
    })
    .meta({ id: "TraceList" }),
);

export const Score = later(() =>
  z
    .object({
      id: z.string(),
      object: z.literal("trace_score"),
      trace_id: z.string(),
      name: z.string(),
      kind: z.enum(SCORE_KINDS),
      value: z.union([z.number(), z.boolean(), z.string()]),
      source: z.enum(SCORE_SOURCES),
      evaluator_id: z.string().nullable(),
      comment: z.string().nullable(),
      created_at: DateTime,
    })
    .meta({ id: "TraceScore" }),
);

export const Trace = later(() =>
  z
    .object({
      ...summary(),
      parameters: z.record(z.string(), z.unknown()).nullable().describe("The parameters of the request, if captured"),
      spans: z.array(
        z.object({
          name: z.enum(SPAN_NAMES),
          start_ms: z.number().describe("From the start of the trace"),
          duration_ms: z.number(),
          attributes: z.record(z.string(), z.unknown()),
        }),
      ),
      input: z.unknown().describe("Messages, prompt or input of the request, if captured"),
      output: z.unknown().describe("The messages or texts of the answer, if captured"),
      scores: z.array(Score),
      annotation_items: z
        .array(AnnotationLink)
        .optional()
        .describe("Items of annotation queues with this answer, newest first. Only in the answer for one trace"),
      experiment_item: z
        .object({ id: z.string(), experiment_id: z.string(), row_id: z.int() })
        .nullable()
        .optional()
        .describe("The item of the experiment that asked for this answer. Only in the answer for one trace"),
    })
    .meta({ id: "Trace" }),
);

const Millis = numberText(z.number().min(0).max(1e12)); // 31 years
const Status = later(() =>
  z
    .union([z.enum(["ok", "error"]), numberText(z.int().min(100).max(599))])
    .describe("An HTTP status, or ok (under 400), or error (400 and more)"),
);

/** Sources of traces that the server caused by itself. */
export const REQUESTS = "requests";
const Source = later(() =>
  z
    .enum([...TRACE_SOURCES, REQUESTS])
    .describe("requests: all but rollouts of trainings and the requests of experiments and judges"),
);

const filters = () => ({
  deployment_id: z.string().optional(),
  key_id: z.string().optional(),
  job_id: z.string().optional(),
  model: z.string().max(300).optional(),
  user: z.string().max(200).optional(),
  tag: z.string().max(64).optional(),
  source: Source.optional(),
  status: Status.optional(),
  min_duration_ms: Millis.optional(),
  max_duration_ms: Millis.optional(),
  score: Label(100).optional().describe("The name of a score. Only traces that have it"),
  min_score: numberText(z.number()).optional().describe("Needs score. A boolean counts as 0 or 1"),
  max_score: numberText(z.number()).optional().describe("Needs score"),
  since: z.iso.datetime({ offset: true }).optional().describe("Recorded at this time or later"),
  until: z.iso.datetime({ offset: true }).optional().describe("Recorded before this time"),
  conversation_id: z.string().optional(),
  q: z.string().max(500).optional().describe('Words of the captured content, "phrases" and prefix*'),
});

export const TraceFilter = later(() => z.object(filters()));
export type TraceFilter = z.infer<typeof TraceFilter>;
export const TraceQuery = later(() =>
  PageQuery.extend({
    ...filters(),
    after: z.string().optional().describe("next_after of the previous page, or the id of its last item"),
  }),
);
export type TraceQuery = z.infer<typeof TraceQuery>;

export const TraceFacetsQuery = later(() => {
  const { source, since, until } = filters();
  return z.object({
    source,
    since: since.describe("Recorded in the hour of this time or later"),
    until: until.describe("Recorded before the end of the hour of this time"),
  });
});
export type TraceFacetsQuery = z.infer<typeof TraceFacetsQuery>;

const FacetValues = z.array(z.object({ value: z.string(), count: z.int() }));
export const TraceFacets = later(() =>
  z
    .object({
      object: z.literal("trace.facets"),
      total: z.int(),
      not_kept: z.int().describe("Traces without content: the capture of their deployment was none or metadata"),
      source: FacetValues.describe("Of all sources, whatever source is asked for"),
      status: FacetValues.describe("HTTP statuses"),
      deployment: z.array(
        z.object({ value: z.string(), count: z.int(), name: z.string().nullable().describe("Null: it was deleted") }),
      ),
      model: FacetValues,
      user: FacetValues,
      tag: FacetValues,
      score: FacetValues.describe("Names of scores, and how many scores of the name there are"),
    })
    .describe("The most frequent first, at most 50 of each")
    .meta({ id: "TraceFacets" }),
);
export type TraceFacets = z.infer<typeof TraceFacets>;

export const CreateScore = later(() =>
  z
    .object({
      name: Label(100),
      value: z
        .union([z.number(), z.boolean(), z.string().min(1).max(4_000)])
        .describe("A number, true or false, or a text"),
      kind: z
        .enum(SCORE_KINDS)
        .optional()
        .describe("Default: number or boolean by the value; a text is a category up to 100 characters"),
      source: z.enum(SCORE_SOURCES).default("person"),
      comment: z.string().max(4_000).nullable().default(null),
    })
    .superRefine(({ kind, value }, { addIssue }) => {
      const expected =
        kind === undefined
          ? undefined
          : { number: "number", boolean: "boolean", category: "string", text: "string" }[kind];
      if (expected !== undefined && typeof value !== expected)
        addIssue({ code: "custom", path: ["value"], message: `must be a ${expected} for the kind ${kind}` });
    })
    .meta({ id: "CreateTraceScore" }),
);
export type CreateScore = z.infer<typeof CreateScore>;

export type SummaryRow = Omit<TraceRow, "parameters" | "spans" | "input" | "output" | "externalId">;

type ShortScore = Pick<ScoreRow, "name" | "kind" | "value" | "label">;

/** `scores`: oldest first. */
export const presentSummary = (row: SummaryRow, scores: readonly ShortScore[]): z.infer<typeof TraceSummary> => ({
  ...presentFacts(row),
  scores: [...new Map(scores.map((score) => [score.name, score])).values()].map((score) => ({
    name: score.name,
    value: scoreValue(score),
  })),
});

const presentFacts = (row: SummaryRow) => ({
  id: row.id,
  object: "trace" as const,
  source: row.source,
  deployment_id: row.deploymentId,
  job_id: row.jobId,
  step: row.step,
  key_id: row.keyId,
  agent_id: row.agentId,
  agent_version: row.agentVersion,
  conversation_id: row.conversationId,
  model: row.model,
  adapter: row.adapter,
  capture: row.capture,
  status: row.status,
  error_code: row.errorCode,
  started_at: isoTime(row.startedAt),
  duration_ms: row.durationMs,
  ttft_ms: row.ttftMs,
  prompt_tokens: row.promptTokens,
  cached_tokens: row.cachedTokens,
  completion_tokens: row.completionTokens,
  metadata: row.metadata,
  user: row.user,
  tags: row.tags,
  input_start: row.inputStart,
  output_start: row.outputStart,
  cost_usd: row.costMicros === null ? null : usdOf(row.costMicros),
  created_at: isoTime(row.createdAt),
});

export const presentTrace = (row: TraceRow, scores: readonly ScoreRow[]): z.infer<typeof Trace> => ({
  ...presentFacts(row),
  parameters: row.parameters,
  spans: row.spans,
  input: row.input,
  output: row.output,
  scores: scores.map(presentScore),
});

const scoreValue = ({ kind, value, label }: ShortScore) =>
  kind === "boolean" ? value === 1 : kind === "number" ? (value ?? 0) : (label ?? "");

export const presentScore = (row: ScoreRow): z.infer<typeof Score> => ({
  id: row.id,
  object: "trace_score",
  trace_id: row.traceId,
  name: row.name,
  kind: row.kind,
  value: scoreValue(row),
  source: row.source,
  evaluator_id: row.evaluatorId,
  comment: row.comment,
  created_at: isoTime(row.createdAt),
});
