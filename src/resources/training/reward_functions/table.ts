import { integer, sqliteTable, text, unique } from "drizzle-orm/sqlite-core";
import { type Entrypoint, LANGUAGES, type Rejection } from "../../../lib/rewards/contract.ts";
import type { Metadata } from "../../../lib/schema.ts";
import { workspaces } from "../../access/workspaces/table.ts";

export const STATUSES = ["ready", "invalid"] as const;
/** A reward scores completions. A resolver maps the rows of a job. All versions of a name have one kind. */
export const KINDS = ["reward", "resolver"] as const;
export type Kind = (typeof KINDS)[number];

const columns = () => ({
  id: text("id").primaryKey(),
  workspaceId: text("workspace_id")
    .notNull()
    .references(() => workspaces.id),
  name: text("name").notNull(),
  version: integer("version").notNull(),
  kind: text("kind", { enum: KINDS }).notNull(),
  language: text("language", { enum: LANGUAGES }).notNull(),
  description: text("description"),
  metadata: text("metadata", { mode: "json" }).$type<Metadata>().notNull(),
  timeoutMs: integer("timeout_ms").notNull(), // for one sample
  entrypoints: text("entrypoints", { mode: "json" }).$type<Entrypoint[]>().notNull(),
  sha256: text("sha256").notNull(),
  sizeBytes: integer("size_bytes").notNull(),
  status: text("status", { enum: STATUSES }).notNull(),
  error: text("error", { mode: "json" }).$type<Rejection>(),
  createdAt: integer("created_at").notNull(),
  deletedAt: integer("deleted_at"),
});

/** Each version is a row. A deleted version keeps only its name and number. */
export const rewardFunctions = sqliteTable(
  "reward_functions",
  { ...columns(), source: text("source").notNull() },
  (t) => [unique().on(t.workspaceId, t.name, t.version)],
);

/** The same rows without the source, which may be a megabyte. */
export const records = { table: sqliteTable("reward_functions", columns()) };

export type RewardFunctionRow = typeof records.table.$inferSelect;
