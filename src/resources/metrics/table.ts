import { integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";

export const counters = sqliteTable(
  "counters",
  {
    name: text("name").notNull(),
    /** Empty: nobody's. */
    workspaceId: text("workspace_id").notNull(),
    /** Their values, in the family's order. */
    labels: text("labels", { mode: "json" }).$type<string[]>().notNull(),
    /** Of a histogram its sum and its buckets. */
    counted: text("counted", { mode: "json" }).$type<number[]>().notNull(),
    updatedAt: integer("updated_at").notNull(),
  },
  (table) => [primaryKey({ columns: [table.workspaceId, table.name, table.labels] })],
);
