import { integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";

export const counters = sqliteTable(
  "counters",
  {
    name: text("name").notNull(),
    /** Empty: the series belongs to no workspace. */
    workspaceId: text("workspace_id").notNull(),
    /** The values of the labels, in the family's order. */
    labels: text("labels", { mode: "json" }).$type<string[]>().notNull(),
    /** One number, or the sum and the buckets of a histogram. */
    counted: text("counted", { mode: "json" }).$type<number[]>().notNull(),
    updatedAt: integer("updated_at").notNull(),
  },
  (table) => [primaryKey({ columns: [table.workspaceId, table.name, table.labels] })],
);
