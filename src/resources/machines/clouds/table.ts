import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";

export const STATUSES = ["starting", "ready", "ending", "ended"] as const;

/** Machines of clouds. Rows outlive their region and their workspace, until the machine has ended. */
export const machines = sqliteTable("machines", {
  id: text("id").primaryKey(),
  workspaceId: text("workspace_id").notNull(),
  regionId: text("region_id").notNull(),
  /** The key whose work started it, and that pays. */
  apiKeyId: text("api_key_id"),
  cloud: text("cloud").notNull(),
  /** The name that the commands get. It has the id of this server. */
  name: text("name").notNull().unique(),
  status: text("status", { enum: STATUSES }).notNull(),
  /** Empty until `up` has printed it. */
  address: text("address").notNull(),
  port: integer("port").notNull(),
  user: text("user").notNull(),
  hostKey: text("host_key").notNull(),
  gpuType: text("gpu_type").notNull(),
  gpuCount: integer("gpu_count").notNull(),
  /** For an hour of all its devices. */
  rateMicros: integer("rate_micros").notNull(),
  /** The time from here on is not charged yet. Null: nothing is left to charge. */
  upSince: integer("up_since"),
  uptimeMs: integer("uptime_ms").notNull(),
  costMicros: integer("cost_micros").notNull(),
  /** Less than a micro-dollar that is owed; see lib/pricing/charge.ts. */
  costRemainder: integer("cost_remainder").notNull(),
  /** Null: it has work. */
  idleSince: integer("idle_since"),
  /** Why it ends before its time, or why it does not end. */
  fault: text("fault"),
  /** Failed calls of `down`. */
  attempts: integer("attempts").notNull(),
  /** Time of the next call of `down`. */
  notBefore: integer("not_before"),
  createdAt: integer("created_at").notNull(),
  readyAt: integer("ready_at"),
  endedAt: integer("ended_at"),
  updatedAt: integer("updated_at").notNull(),
});
export type MachineRow = typeof machines.$inferSelect;
