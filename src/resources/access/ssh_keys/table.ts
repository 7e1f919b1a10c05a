import { integer, sqliteTable, text, unique } from "drizzle-orm/sqlite-core";
import { workspaces } from "../workspaces/table.ts";

export const sshKeys = sqliteTable(
  "ssh_keys",
  {
    id: text("id").primaryKey(),
    workspaceId: text("workspace_id")
      .notNull()
      .references(() => workspaces.id),
    name: text("name").notNull(),
    publicKey: text("public_key").notNull(),
    privateKeySealed: text("private_key_sealed").notNull(),
    fingerprint: text("fingerprint").notNull(),
    type: text("type").notNull(),
    provider: text("provider"),
    metadata: text("metadata", { mode: "json" }).$type<Record<string, string>>().notNull(),
    createdAt: integer("created_at").notNull(),
    updatedAt: integer("updated_at").notNull(),
  },
  (t) => [unique().on(t.workspaceId, t.name)],
);
export type SshKeyRow = typeof sshKeys.$inferSelect;
