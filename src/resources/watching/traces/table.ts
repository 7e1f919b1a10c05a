import { integer, primaryKey, real, sqliteTable, text } from "drizzle-orm/sqlite-core";

/** `evaluation`: requests of experiments and judges. */
export const TRACE_SOURCES = ["chat", "completion", "embedding", "rollout", "evaluation", "otlp"] as const;
export type TraceSource = (typeof TRACE_SOURCES)[number];
export const CAPTURES = ["none", "metadata", "full"] as const;
export type Capture = (typeof CAPTURES)[number];
export const SPAN_NAMES = ["queue", "wake", "template", "prompt", "decode", "tool_call"] as const;

/** `start_ms`: from the start of the trace. */
export type Span = {
  name: (typeof SPAN_NAMES)[number];
  start_ms: number;
  duration_ms: number;
  attributes: Record<string, unknown>;
};

export const traces = sqliteTable("traces", {
  seq: integer("seq").primaryKey(),
  id: text("id").notNull().unique(),
  workspaceId: text("workspace_id").notNull(),
  source: text("source", { enum: TRACE_SOURCES }).notNull(),
  deploymentId: text("deployment_id"),
  jobId: text("job_id"),
  step: integer("step"),
  keyId: text("key_id"),
  model: text("model"),
  adapter: text("adapter"),
  agentId: text("agent_id"),
  agentVersion: integer("agent_version"),
  conversationId: text("conversation_id"),
  /** The ids of an OpenTelemetry span, so that an exporter may send a batch twice. */
  externalId: text("external_id"),
  capture: text("capture", { enum: CAPTURES }).notNull(),
  status: integer("status").notNull(),
  errorCode: text("error_code"),
  startedAt: integer("started_at").notNull(),
  durationMs: real("duration_ms").notNull(),
  ttftMs: real("ttft_ms"),
  promptTokens: integer("prompt_tokens").notNull(),
  cachedTokens: integer("cached_tokens").notNull(),
  completionTokens: integer("completion_tokens").notNull(),
  /** The time at which it was recorded: the end of the request. Lists and retention go by it. */
  createdAt: integer("created_at").notNull(),
  metadata: text("metadata", { mode: "json" }).$type<Record<string, string>>().notNull(),
  parameters: text("parameters", { mode: "json" }).$type<Record<string, unknown>>(),
  spans: text("spans", { mode: "json" }).$type<Span[]>().notNull(),
  input: text("input", { mode: "json" }).$type<unknown>(),
  output: text("output", { mode: "json" }).$type<unknown>(),
  user: text("user"),
  tags: text("tags", { mode: "json" }).$type<string[]>().notNull(),
  /** The first words of input and output. Null: nothing was kept. */
  inputStart: text("input_start"),
  outputStart: text("output_start"),
  /** An estimate. Null: nothing served the request, or another program did not say. */
  costMicros: real("cost_micros"),
});
export type TraceRow = typeof traces.$inferSelect;

export const SCORE_KINDS = ["number", "boolean", "category", "text"] as const;
export const SCORE_SOURCES = ["person", "code", "judge"] as const;

export const traceScores = sqliteTable("trace_scores", {
  id: text("id").primaryKey(),
  workspaceId: text("workspace_id").notNull(),
  traceId: text("trace_id")
    .notNull()
    .references(() => traces.id, { onDelete: "cascade" }),
  traceSeq: integer("trace_seq").notNull(),
  traceAt: integer("trace_at").notNull(),
  name: text("name").notNull(),
  kind: text("kind", { enum: SCORE_KINDS }).notNull(),
  /** Numbers, and 0 or 1 for a boolean. */
  value: real("value"),
  /** Categories and texts. */
  label: text("label"),
  source: text("source", { enum: SCORE_SOURCES }).notNull(),
  evaluatorId: text("evaluator_id"),
  keyId: text("key_id"),
  comment: text("comment"),
  createdAt: integer("created_at").notNull(),
});
export type ScoreRow = typeof traceScores.$inferSelect;

export const conversations = sqliteTable(
  "conversations",
  {
    workspaceId: text("workspace_id").notNull(),
    id: text("id").notNull(),
    createdAt: integer("created_at").notNull(),
    lastAt: integer("last_at").notNull(),
    traceCount: integer("trace_count").notNull(),
    promptTokens: integer("prompt_tokens").notNull(),
    completionTokens: integer("completion_tokens").notNull(),
  },
  (t) => [primaryKey({ columns: [t.workspaceId, t.id] })],
);
export type ConversationRow = typeof conversations.$inferSelect;

export const FACETS = ["status", "capture", "model", "deployment", "user", "tag", "score"] as const;
export type Facet = (typeof FACETS)[number];

/** How many traces of an hour and a source have a value of a facet. */
export const traceCounts = sqliteTable(
  "trace_counts",
  {
    workspaceId: text("workspace_id").notNull(),
    facet: text("facet", { enum: FACETS }).notNull(),
    hour: integer("hour").notNull(),
    source: text("source", { enum: TRACE_SOURCES }).notNull(),
    value: text("value").notNull(),
    n: integer("n").notNull(),
  },
  (t) => [primaryKey({ columns: [t.workspaceId, t.facet, t.hour, t.source, t.value] })],
);
