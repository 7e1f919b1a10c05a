import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";

/** Facts about this installation. */
export const settings = sqliteTable("settings", {
  key: text("key").primaryKey(),
  value: text("value").notNull(),
  updatedAt: integer("updated_at").notNull(),
});
