import { integer, real, sqliteTable, text, unique } from "drizzle-orm/sqlite-core";
import type { Metadata } from "../../../lib/schema.ts";
import { workspaces } from "../../access/workspaces/table.ts";
import type { KINDS, Settings } from "./config.ts";

export type Kind = (typeof KINDS)[number];

const columns = () => ({
  id: text("id").primaryKey(),
  workspaceId: text("workspace_id")
    .notNull()
    .references(() => workspaces.id),
  name: text("name").notNull(),
  version: integer("version").notNull(),
  kind: text("kind").$type<Kind>().notNull(),
  description: text("description"),
  metadata: text("metadata", { mode: "json" }).$type<Metadata>().notNull(),
  /** Settings of the kind, without the source of the kind `code`. */
  config: text("config", { mode: "json" }).$type<Settings["config"]>().notNull(),
  passThreshold: real("pass_threshold"),
  createdAt: integer("created_at").notNull(),
  deletedAt: integer("deleted_at"),
});

/** Each version is a row. A deleted version keeps only its name, kind and number. */
export const evaluators = sqliteTable("evaluators", { ...columns(), source: text("source") }, (t) => [
  unique().on(t.workspaceId, t.name, t.version),
]);

/** The same rows without the source, which may be a megabyte. */
export const records = { table: sqliteTable("evaluators", columns()) };

export type EvaluatorRow = typeof records.table.$inferSelect;

/** The part of an evaluator that decides its verdicts. */
export type EvaluatorVersion = Pick<EvaluatorRow, "id" | "name" | "version" | "kind" | "config" | "passThreshold">;

/** An evaluator as a reward. A job keeps a copy, so that a later deletion of the evaluator changes nothing for it. */
export type EvaluatorReward = { weight: number; evaluator: EvaluatorVersion };
