import { integer, sqliteTable, text, unique } from "drizzle-orm/sqlite-core";
import type { Tool } from "../../../lib/chat/messages.ts";
import type { Metadata } from "../../../lib/schema.ts";
import { workspaces } from "../../access/workspaces/table.ts";
import type { McpServer } from "./tools/schema.ts";

/** Each version is a row. A deleted version keeps only its name and number. */
export const agents = sqliteTable(
  "agents",
  {
    id: text("id").primaryKey(),
    workspaceId: text("workspace_id")
      .notNull()
      .references(() => workspaces.id),
    name: text("name").notNull(),
    version: integer("version").notNull(),
    description: text("description"),
    /** The name or id of a deployment, as the request had it. Looked up at each call. */
    deployment: text("deployment").notNull(),
    systemPrompt: text("system_prompt"),
    tools: text("tools", { mode: "json" }).$type<(Tool | McpServer)[]>().notNull(),
    /** Fields of a chat request. */
    sampling: text("sampling", { mode: "json" }).$type<Record<string, unknown>>().notNull(),
    /** Null: the default. */
    maxTurns: integer("max_turns"),
    metadata: text("metadata", { mode: "json" }).$type<Metadata>().notNull(),
    createdAt: integer("created_at").notNull(),
    deletedAt: integer("deleted_at"),
  },
  (t) => [unique().on(t.workspaceId, t.name, t.version)],
);
export type AgentRow = typeof agents.$inferSelect;
