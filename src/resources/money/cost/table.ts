import { integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";

/**
 * Sums of use by hour. Triggers of the tables `training_jobs` and `deployments` write them (migration 0015), and nothing
 * removes them: they outlive their jobs.
 */
export const usageHours = sqliteTable(
  "usage_hours",
  {
    workspaceId: text("workspace_id").notNull(),
    /** Hours since 1970: the hour in which a job completed, or in which a deployment was charged. */
    hour: integer("hour").notNull(),
    kind: text("kind", { enum: ["job", "deployment"] }).notNull(),
    provider: text("provider").notNull(),
    gpuType: text("gpu_type").notNull(),
    jobs: integer("jobs").notNull(),
    /** Time × devices × replicas. */
    deviceMs: integer("device_ms").notNull(),
    costMicros: integer("cost_micros").notNull(),
    energyJoules: integer("energy_joules").notNull(),
  },
  (table) => [primaryKey({ columns: [table.workspaceId, table.hour, table.kind, table.provider, table.gpuType] })],
);
export type UsageRow = typeof usageHours.$inferSelect;

/** Use by day, key and model. Triggers write jobs, time and cost (migration 0088); requests.ts writes requests and tokens. */
export const usageDays = sqliteTable(
  "usage_days",
  {
    workspaceId: text("workspace_id").notNull(),
    /** Days of UTC since 1970. */
    day: integer("day").notNull(),
    kind: text("kind", { enum: ["training", "serving"] }).notNull(),
    /** Requests count for the key that sent them, time and cost for the key that pays. Empty: no key. */
    keyId: text("key_id").notNull(),
    model: text("model").notNull(),
    requests: integer("requests").notNull().default(0),
    promptTokens: integer("prompt_tokens").notNull().default(0),
    cachedTokens: integer("cached_tokens").notNull().default(0),
    completionTokens: integer("completion_tokens").notNull().default(0),
    jobs: integer("jobs").notNull().default(0),
    /** Time × devices × replicas. */
    deviceMs: integer("device_ms").notNull().default(0),
    costMicros: integer("cost_micros").notNull().default(0),
  },
  (table) => [primaryKey({ columns: [table.workspaceId, table.day, table.kind, table.keyId, table.model] })],
);
export type UseRow = typeof usageDays.$inferSelect;
