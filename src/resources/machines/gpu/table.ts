import { integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";

export const gpuLeases = sqliteTable(
  "gpu_leases",
  {
    holder: text("holder").notNull(),
    device: text("device").notNull(),
    kind: text("kind").notNull(),
    workspaceId: text("workspace_id").notNull(),
    bytes: integer("bytes").notNull(),
    /** Main memory of the holder, on the first of its devices. 0 if the device is main memory. */
    mainBytes: integer("main_bytes").notNull(),
    priority: integer("priority").notNull(),
    pinned: integer("pinned", { mode: "boolean" }).notNull(),
    createdAt: integer("created_at").notNull(),
    updatedAt: integer("updated_at").notNull(),
  },
  (t) => [primaryKey({ columns: [t.holder, t.device] })],
);
export type LeaseRow = typeof gpuLeases.$inferSelect;

export const gpuWaits = sqliteTable("gpu_waits", {
  holder: text("holder").primaryKey(),
  kind: text("kind").notNull(),
  workspaceId: text("workspace_id").notNull(),
  gpuType: text("gpu_type"),
  gpuCount: integer("gpu_count").notNull(),
  bytes: integer("bytes").notNull(),
  priority: integer("priority").notNull(),
  reason: text("reason").notNull(),
  createdAt: integer("created_at").notNull(),
  updatedAt: integer("updated_at").notNull(),
});
export type WaitRow = typeof gpuWaits.$inferSelect;
