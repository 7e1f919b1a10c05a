import { sql } from "drizzle-orm";
import { blob, integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { workspaces } from "../../access/workspaces/table.ts";
import { DELIVERY_STATUSES } from "./delivery/verdict.ts";

const ENDPOINT_STATUSES = ["enabled", "disabled", "deleted"] as const;
export const DISABLED_REASONS = ["consecutive_failures", "gone", "by_hand"] as const;
/** The signature scheme: Standard Webhooks for events, or the one for notifications of detection. */
const SCHEMES = ["standard", "service"] as const;
export const TRIGGERS = ["scheduled", "manual", "test"] as const;

export const webhookEndpoints = sqliteTable("webhook_endpoints", {
  id: text("id").primaryKey(),
  workspaceId: text("workspace_id")
    .notNull()
    .references(() => workspaces.id),
  url: text("url").notNull(),
  description: text("description"),
  /** Empty: all types. */
  eventTypes: text("event_types", { mode: "json" }).$type<string[]>().notNull(),
  /** Sealed JSON of `Secrets` (rotation.ts); empty once the endpoint is deleted. */
  secrets: text("secrets").notNull(),
  status: text("status", { enum: ENDPOINT_STATUSES }).notNull(),
  consecutiveFailures: integer("consecutive_failures").notNull(),
  /** When failures disabled it; null also if it was disabled by hand. */
  disabledAt: integer("disabled_at"),
  disabledReason: text("disabled_reason", { enum: DISABLED_REASONS }),
  metadata: text("metadata", { mode: "json" }).$type<Record<string, string>>().notNull(),
  /** The newest event at its creation. It gets only later events, whatever the clock says. */
  afterSeq: integer("after_seq").notNull(),
  createdAt: integer("created_at").notNull(),
  updatedAt: integer("updated_at").notNull(),
  deletedAt: integer("deleted_at"),
  scheme: text("scheme", { enum: SCHEMES }).notNull(),
});
export type EndpointRow = typeof webhookEndpoints.$inferSelect;

export const webhookBodies = sqliteTable("webhook_bodies", {
  eventId: text("event_id").primaryKey(),
  workspaceId: text("workspace_id").notNull(),
  body: blob("body", { mode: "buffer" }).notNull(),
  createdAt: integer("created_at").notNull(),
});

export const webhookDeliveries = sqliteTable("webhook_deliveries", {
  id: text("id").primaryKey(),
  endpointId: text("endpoint_id")
    .notNull()
    .references(() => webhookEndpoints.id),
  workspaceId: text("workspace_id").notNull(),
  eventId: text("event_id").notNull(),
  eventType: text("event_type").notNull(),
  eventCreatedAt: integer("event_created_at").notNull(),
  status: text("status", { enum: DELIVERY_STATUSES }).notNull(),
  /** The trigger of scheduled attempts. */
  trigger: text("trigger", { enum: TRIGGERS }).notNull(),
  attemptCount: integer("attempt_count").notNull(),
  scheduledCount: integer("scheduled_count").notNull(),
  /** The next scheduled attempt or the expiry. Null: settled, or held because the endpoint is disabled. */
  dueAt: integer("due_at"),
  /** When a resend by hand was requested, whatever the status. Null: none is pending. */
  resendAt: integer("resend_at"),
  expiresAt: integer("expires_at").notNull(),
  lastResponseCode: integer("last_response_code"),
  lastError: text("last_error"),
  createdAt: integer("created_at").notNull(),
  updatedAt: integer("updated_at").notNull(),
});
export type DeliveryRow = typeof webhookDeliveries.$inferSelect;

/** A generated column: the resend that is pending, or else `due_at`. Null: nothing to do. */
export const nextAt = sql<number>`next_at`;

export const webhookAttempts = sqliteTable(
  "webhook_attempts",
  {
    deliveryId: text("delivery_id")
      .notNull()
      .references(() => webhookDeliveries.id, { onDelete: "cascade" }),
    number: integer("number").notNull(),
    attemptedAt: integer("attempted_at").notNull(),
    trigger: text("trigger", { enum: TRIGGERS }).notNull(),
    durationMs: integer("duration_ms").notNull(),
    responseCode: integer("response_code"),
    responseBody: text("response_body"),
    errorCode: text("error_code"),
    errorMessage: text("error_message"),
  },
  (table) => [primaryKey({ columns: [table.deliveryId, table.number] })],
);
export type AttemptRow = typeof webhookAttempts.$inferSelect;
