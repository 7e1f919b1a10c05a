import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";

/** Keys of the storage without an owner: they are about to be written or removed. */
export const looseKeys = sqliteTable("loose_keys", {
  key: text("key").primaryKey(),
  createdAt: integer("created_at").notNull(),
});
