import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { workspaces } from "../../access/workspaces/table.ts";
import { trainingJobs } from "../training_jobs/table.ts";
import { type RemoteRun, TRACKER_TYPES } from "./contract.ts";

const destination = {
  type: text("type", { enum: TRACKER_TYPES }).notNull(),
  baseUrl: text("base_url").notNull(),
  project: text("project").notNull(),
  secretName: text("secret_name"),
};

export const trackerIntegrations = sqliteTable("tracker_integrations", {
  workspaceId: text("workspace_id")
    .primaryKey()
    .references(() => workspaces.id),
  ...destination,
  metadata: text("metadata", { mode: "json" }).$type<Record<string, string>>().notNull(),
  createdAt: integer("created_at").notNull(),
  updatedAt: integer("updated_at").notNull(),
});
export type IntegrationRow = typeof trackerIntegrations.$inferSelect;

export const trackerRuns = sqliteTable("tracker_runs", {
  jobId: text("job_id")
    .primaryKey()
    .references(() => trainingJobs.id, { onDelete: "cascade" }),
  workspaceId: text("workspace_id").notNull(),
  ...destination,
  remote: text("place", { mode: "json" }).$type<RemoteRun>(),
  paramsSent: integer("params_told", { mode: "boolean" }).notNull(),
  lastStepSent: integer("step_told").notNull(),
  pointsSent: integer("points_told").notNull(),
  stateSent: text("state_told"),
  sentAt: integer("told_at"),
  failures: integer("failures").notNull(),
  refusals: integer("refusals").notNull(),
  failingSince: integer("failing_since"),
  lastError: text("last_error"),
  nextAt: integer("next_at"),
  createdAt: integer("created_at").notNull(),
  updatedAt: integer("updated_at").notNull(),
});
export type TrackerRunRow = typeof trackerRuns.$inferSelect;
