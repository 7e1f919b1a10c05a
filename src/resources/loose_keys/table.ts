import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";

/** Keys of the storage that nobody owns: about to be written, or to be removed. */
export const looseKeys = sqliteTable("loose_keys", {
  key: text("key").primaryKey(),
  createdAt: integer("created_at").notNull(),
});
