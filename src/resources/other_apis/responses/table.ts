import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import type { ChatCompletionRequest } from "../../../lib/chat/chat_completion.ts";
import { workspaces } from "../../access/workspaces/table.ts";
import { type KnownItem, STATUSES } from "./items.ts";
import type { ModelResponse } from "./schema.ts";

export const responses = sqliteTable("responses", {
  id: text("id").primaryKey(),
  workspaceId: text("workspace_id")
    .notNull()
    .references(() => workspaces.id),
  status: text("status", { enum: STATUSES }).notNull(),
  /** The response that this one continues. */
  previousId: text("previous_id"),
  /** The items of its own request, without those of the responses before. */
  input: text("input", { mode: "json" }).$type<KnownItem[]>().notNull(),
  response: text("response", { mode: "json" }).$type<ModelResponse>().notNull(),
  /** The chat request of a background response until it ends. */
  task: text("task", { mode: "json" }).$type<ChatCompletionRequest>(),
  keyId: text("key_id"),
  createdAt: integer("created_at").notNull(),
  updatedAt: integer("updated_at").notNull(),
});
export type ResponseRow = typeof responses.$inferSelect;
