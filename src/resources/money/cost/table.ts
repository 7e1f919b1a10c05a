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
