import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";

/** Changes of settings, of the whole server. */
export const operatorSettings = sqliteTable("operator_settings", {
  name: text("name").primaryKey(),
  value: text("value", { mode: "json" }).$type<unknown>().notNull(),
  /** The key of the change; the audit log has the rest. */
  keyId: text("key_id").notNull(),
  changedAt: integer("changed_at").notNull(),
});
