import { integer, primaryKey, real, sqliteTable, text, uniqueIndex } from "drizzle-orm/sqlite-core";
import { workspaces } from "../../access/workspaces/table.ts";

export const STATUSES = ["queued", "running", "completed", "failed", "cancelled"] as const;
export const TARGET_TYPES = ["deployment", "checkpoint", "model", "outputs"] as const;

/** `temporary`: the experiment created the deployment, and stops it. */
export type Target = {
  name: string;
  type: (typeof TARGET_TYPES)[number];
  deploymentId: string | null;
  temporary: boolean;
  /** The training job that made what the target serves, or null. */
  jobId: string | null;
  checkpointId: string | null;
  /** The name of the model if no job made it, or null. */
  model: string | null;
  /** The column of the row that holds a recorded output, or null. */
  field: string | null;
};

/** One version of an evaluator. `label` is unique in the experiment. `pairwise`: it compares with the baseline's answer. */
export type EvaluatorRef = { id: string; label: string; version: number; pairwise: boolean };

export type Params = {
  temperature: number;
  max_tokens?: number | undefined;
  top_p?: number | undefined;
  seed?: number | undefined;
  stop?: string[] | undefined;
};

export type Message = Record<string, unknown> & { role: string };
export type Input = string | Message[];

export const experiments = sqliteTable("experiments", {
  id: text("id").primaryKey(),
  workspaceId: text("workspace_id")
    .notNull()
    .references(() => workspaces.id),
  name: text("name").notNull(),
  status: text("status", { enum: STATUSES }).notNull(),
  datasetId: text("dataset_id").notNull(),
  snapshotNumber: integer("snapshot_number").notNull(),
  /** Rows that are run: the first ones of the snapshot. */
  rowCount: integer("row_count").notNull(),
  targets: text("targets", { mode: "json" }).$type<Target[]>().notNull(),
  evaluators: text("evaluators", { mode: "json" }).$type<EvaluatorRef[]>().notNull(),
  /** Index of a target. */
  baseline: integer("baseline").notNull(),
  params: text("params", { mode: "json" }).$type<Params>().notNull(),
  systemPrompt: text("system_prompt"),
  /** Null: the format of the row decides. */
  referenceField: text("reference_field"),
  concurrency: integer("concurrency").notNull(),
  itemsDone: integer("items_done").notNull(),
  /** Items that are done and have an error. */
  itemsFailed: integer("items_failed").notNull(),
  error: text("error"),
  errorCode: text("error_code"),
  /** The key that pays for temporary deployments. */
  apiKeyId: text("api_key_id"),
  metadata: text("metadata", { mode: "json" }).$type<Record<string, string>>().notNull(),
  createdAt: integer("created_at").notNull(),
  updatedAt: integer("updated_at").notNull(),
  startedAt: integer("started_at"),
  finishedAt: integer("finished_at"),
});
export type ExperimentRow = typeof experiments.$inferSelect;

/** The deployments, training jobs and evaluators of an experiment. The list of experiments is filtered by them. */
export const experimentLinks = sqliteTable(
  "experiment_links",
  { linkedId: text("linked_id").notNull(), experimentId: text("experiment_id").notNull() },
  (t) => [primaryKey({ columns: [t.linkedId, t.experimentId] })],
);

/** The answer of a target to a row. With `output` and without `finishedAt` it is generated but not yet scored. */
export const experimentItems = sqliteTable(
  "experiment_items",
  {
    id: text("id").primaryKey(),
    experimentId: text("experiment_id").notNull(),
    target: integer("target").notNull(),
    rowId: integer("row_id").notNull(),
    input: text("input", { mode: "json" }).$type<Input>().notNull(),
    reference: text("reference"),
    output: text("output"),
    latencyMs: real("latency_ms"),
    promptTokens: integer("prompt_tokens"),
    completionTokens: integer("completion_tokens"),
    requestId: text("request_id"),
    traceId: text("trace_id"),
    error: text("error"),
    errorCode: text("error_code"),
    createdAt: integer("created_at").notNull(),
    finishedAt: integer("finished_at"),
  },
  (t) => [uniqueIndex("experiment_items_once").on(t.experimentId, t.target, t.rowId)],
);
export type ItemRow = typeof experimentItems.$inferSelect;

/** Written in one commit with the end of their item. */
export const experimentScores = sqliteTable(
  "experiment_scores",
  {
    experimentId: text("experiment_id").notNull(),
    target: integer("target").notNull(),
    rowId: integer("row_id").notNull(),
    evaluator: integer("evaluator").notNull(),
    score: real("score"),
    label: text("label"),
    passed: integer("passed", { mode: "boolean" }),
    reason: text("reason"),
    error: text("error"),
    latencyMs: real("latency_ms").notNull(),
  },
  (t) => [primaryKey({ columns: [t.experimentId, t.target, t.rowId, t.evaluator] })],
);
export type ScoreRow = typeof experimentScores.$inferSelect;
