import { integer, primaryKey, real, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { STATUSES } from "../../../lib/deployment_status.ts";
import { KV_TYPES } from "../../../lib/gguf/memory.ts";
import { workspaces } from "../../access/workspaces/table.ts";
import { CAPTURES } from "../../watching/traces/table.ts";
import { models } from "../models/table.ts";

export const ERROR_CODES = ["no_capacity", "worker_failed"] as const;
export const SOURCES = ["training_job", "hub"] as const;

/** The region that is this machine. */
export const LOCAL = "local";

/** A model as a request names it, and its row. */
export type ModelRef = {
  model: string;
  modelId: string | null;
  source: (typeof SOURCES)[number];
  checkpoint: string | null;
};

export const deployments = sqliteTable("deployments", {
  id: text("id").primaryKey(),
  workspaceId: text("workspace_id")
    .notNull()
    .references(() => workspaces.id),
  name: text("name").notNull(),
  status: text("status", { enum: STATUSES }).notNull(),
  model: text("model").notNull(),
  modelId: text("model_id").references(() => models.id),
  source: text("source", { enum: SOURCES }).notNull(),
  checkpoint: text("checkpoint"),
  /** The model that replaces the present one once it is loaded; see switch.ts. */
  nextModel: text("next_model", { mode: "json" }).$type<ModelRef>(),
  /** The model before the last switch. */
  previousModel: text("previous_model", { mode: "json" }).$type<ModelRef>(),
  gpuType: text("gpu_type").notNull(),
  gpuCount: integer("gpu_count").notNull(),
  provider: text("provider").notNull(),
  /** `LOCAL`, or the id of a region. */
  region: text("region").notNull().default(LOCAL),
  minReplicas: integer("min_replicas").notNull(),
  maxReplicas: integer("max_replicas").notNull(),
  idleTimeoutSeconds: integer("idle_timeout_seconds").notNull(),
  contextLength: integer("context_length"),
  parallel: integer("parallel"),
  kvType: text("kv_type", { enum: KV_TYPES }),
  wakeTimeoutSeconds: integer("wake_timeout_seconds").notNull(),
  maxHeldRequests: integer("max_held_requests").notNull(),
  pinned: integer("pinned", { mode: "boolean" }).notNull(),
  parked: integer("parked", { mode: "boolean" }).notNull(),
  waking: integer("waking", { mode: "boolean" }).notNull(),
  attempts: integer("attempts").notNull(),
  nextAttemptAt: integer("next_attempt_at"),
  /** The last error, in every status. The API shows it as `error` only if the deployment has failed. */
  error: text("error"),
  errorCode: text("error_code", { enum: ERROR_CODES }),
  queueReason: text("queue_reason"),
  queueTimeoutSeconds: integer("queue_timeout_seconds").notNull(),
  /** Time that it has waited for memory since it was created or started. Measured by the steady clock. */
  queuedMs: integer("queued_ms").notNull(),
  costPerHourMicros: integer("cost_per_hour_micros"),
  totalCostMicros: integer("total_cost_micros").notNull(),
  /** Less than a micro-dollar that is owed; see money/cost/charge.ts. */
  costRemainder: integer("cost_remainder").notNull(),
  /** Replicas that are paid for since `upSince`. */
  chargedReplicas: integer("charged_replicas").notNull(),
  totalRequests: integer("total_requests").notNull(),
  totalErrors: integer("total_errors").notNull(),
  totalPromptTokens: integer("total_prompt_tokens").notNull(),
  totalCompletionTokens: integer("total_completion_tokens").notNull(),
  totalLatencyMs: real("total_latency_ms").notNull(),
  uptimeMs: integer("uptime_ms").notNull(),
  upSince: integer("up_since"),
  billedUntil: integer("billed_until"),
  startedAt: integer("started_at"),
  stoppedAt: integer("stopped_at"),
  lastRequestAt: integer("last_request_at"),
  metadata: text("metadata", { mode: "json" }).$type<Record<string, string>>().notNull(),
  createdAt: integer("created_at").notNull(),
  updatedAt: integer("updated_at").notNull(),
  /** How much of each request its trace keeps. */
  capture: text("capture", { enum: CAPTURES }).notNull(),
  captureRetentionDays: integer("capture_retention_days").notNull(),
  captureRedact: text("capture_redact", { mode: "json" }).$type<string[]>().notNull(),
  /** The key that created, started or woke it last: it pays. */
  apiKeyId: text("api_key_id"),
  /** The server made it for its own work: it is in no list of a user, and its events reach no user. */
  internal: integer("internal", { mode: "boolean" }).notNull().default(false),
});
export type DeploymentRow = typeof deployments.$inferSelect;

export const deploymentRequests = sqliteTable("deployment_requests", {
  id: text("id").primaryKey(),
  workspaceId: text("workspace_id").notNull(),
  deploymentId: text("deployment_id")
    .notNull()
    .references(() => deployments.id),
  promptTokens: integer("prompt_tokens").notNull(),
  completionTokens: integer("completion_tokens").notNull(),
  latencyMs: real("latency_ms").notNull(),
  statusCode: integer("status_code").notNull(),
  errorMessage: text("error_message"),
  createdAt: integer("created_at").notNull(),
});
export type RequestRow = typeof deploymentRequests.$inferSelect;

/** Requests of a deployment in a minute or an hour: those that ended in it. */
export const deploymentTraffic = sqliteTable(
  "deployment_traffic",
  {
    deploymentId: text("deployment_id")
      .notNull()
      .references(() => deployments.id, { onDelete: "cascade" }),
    /** Length of the span: 1 or 60. */
    minutes: integer("minutes").notNull(),
    /** Its beginning, in minutes since 1970. */
    minute: integer("minute").notNull(),
    requests: integer("requests").notNull(),
    errors: integer("errors").notNull(),
    promptTokens: integer("prompt_tokens").notNull(),
    cachedTokens: integer("cached_tokens").notNull(),
    completionTokens: integer("completion_tokens").notNull(),
    /** Time that they waited for a replica, summed. */
    waitedMs: real("waited_ms").notNull(),
    /** Requests at once. */
    mostOpen: integer("most_open").notNull(),
    mostWaiting: integer("most_waiting").notNull(),
    /** Bucket → requests that succeeded (traffic/buckets.ts). */
    answerMs: text("answer_ms", { mode: "json" }).$type<Record<string, number>>().notNull(),
    firstTokenMs: text("first_token_ms", { mode: "json" }).$type<Record<string, number>>().notNull(),
  },
  (t) => [primaryKey({ columns: [t.deploymentId, t.minutes, t.minute] })],
);
export type TrafficRow = typeof deploymentTraffic.$inferSelect;

/** Beginnings of prompts on the disk (prefixes/store.ts). A trigger removes the row of a deleted workspace. */
export const prefixStores = sqliteTable("prefix_stores", {
  workspaceId: text("workspace_id")
    .primaryKey()
    .references(() => workspaces.id),
  keySealed: text("key_sealed").notNull(),
  /** Bytes of the blocks in the folder, as far as replicas have reported them. */
  bytes: integer("bytes").notNull(),
  createdAt: integer("created_at").notNull(),
});
export type PrefixStoreRow = typeof prefixStores.$inferSelect;

export const LOG_LEVELS = ["info", "warn", "error"] as const;

export const deploymentLogs = sqliteTable("deployment_logs", {
  seq: integer("seq").primaryKey(),
  deploymentId: text("deployment_id")
    .notNull()
    .references(() => deployments.id, { onDelete: "cascade" }),
  at: integer("at").notNull(),
  level: text("level", { enum: LOG_LEVELS }).notNull(),
  text: text("text").notNull(),
});
export type LogRow = typeof deploymentLogs.$inferSelect;
