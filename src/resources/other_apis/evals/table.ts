import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { workspaces } from "../../access/workspaces/table.ts";
import { experiments } from "../../quality/experiments/table.ts";
import type { Criterion, DataSource, DataSourceConfig } from "./schema.ts";

export const evals = sqliteTable("evals", {
  id: text("id").primaryKey(),
  workspaceId: text("workspace_id")
    .notNull()
    .references(() => workspaces.id),
  name: text("name").notNull(),
  dataSourceConfig: text("data_source_config", { mode: "json" }).$type<DataSourceConfig>().notNull(),
  testingCriteria: text("testing_criteria", { mode: "json" }).$type<Criterion[]>().notNull(),
  /** The id of an evaluator for each criterion. */
  evaluators: text("evaluators", { mode: "json" }).$type<string[]>().notNull(),
  metadata: text("metadata", { mode: "json" }).$type<Record<string, string>>().notNull(),
  createdAt: integer("created_at").notNull(),
});
export type EvalRow = typeof evals.$inferSelect;

/** The row has what only this format knows. Its id is the id of the experiment, which has the state. */
export const evalRuns = sqliteTable("eval_runs", {
  id: text("id")
    .primaryKey()
    .references(() => experiments.id, { onDelete: "cascade" }),
  workspaceId: text("workspace_id")
    .notNull()
    .references(() => workspaces.id),
  evalId: text("eval_id")
    .notNull()
    .references(() => evals.id, { onDelete: "cascade" }),
  /** Without the content of the source: the dataset of the experiment has it. */
  dataSource: text("data_source", { mode: "json" }).$type<DataSource>().notNull(),
  createdAt: integer("created_at").notNull(),
});
export type EvalRunRow = typeof evalRuns.$inferSelect;
