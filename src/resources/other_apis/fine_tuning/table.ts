import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { workspaces } from "../../access/workspaces/table.ts";
import { trainingJobs } from "../../training/training_jobs/table.ts";
import type { Method } from "./schema.ts";

/** The row has what only this format knows. Its id is the id of the training job, which has the state. */
export const fineTuningJobs = sqliteTable("fine_tuning_jobs", {
  id: text("id")
    .primaryKey()
    .references(() => trainingJobs.id, { onDelete: "cascade" }),
  workspaceId: text("workspace_id")
    .notNull()
    .references(() => workspaces.id),
  model: text("model").notNull(),
  method: text("method", { mode: "json" }).$type<Method>().notNull(),
  trainingFile: text("training_file").notNull(),
  validationFile: text("validation_file"),
  /** The name of the deployment that serves the result. */
  servedName: text("served_name").notNull(),
  /** Null until the result is deployed. */
  deploymentId: text("deployment_id"),
  deploymentError: text("deployment_error", { mode: "json" }).$type<{ code: string; message: string }>(),
  createdAt: integer("created_at").notNull(),
});
export type FineTuningRow = typeof fineTuningJobs.$inferSelect;
