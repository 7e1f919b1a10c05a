import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { workspaces } from "../workspaces/table.ts";

export const ENTRY_KINDS = ["initial", "grant", "charge"] as const;
export const SUBJECT_KINDS = ["job", "deployment"] as const;

/** Append-only: triggers refuse every change and every deletion. */
export const ledgerEntries = sqliteTable("ledger_entries", {
  id: text("id").primaryKey(),
  workspaceId: text("workspace_id")
    .notNull()
    .references(() => workspaces.id),
  kind: text("kind", { enum: ENTRY_KINDS }).notNull(),
  amountMicros: integer("amount_micros").notNull(),
  subjectKind: text("subject_kind", { enum: SUBJECT_KINDS }),
  subjectId: text("subject_id"),
  /** Names what is paid. Unique: nothing is booked twice. */
  windowKey: text("window_key").notNull().unique(),
  usageMs: integer("usage_ms"),
  rateMicros: integer("rate_micros"),
  description: text("description").notNull(),
  createdAt: integer("created_at").notNull(),
});
export type EntryRow = typeof ledgerEntries.$inferSelect;
export type AccountRow = typeof creditAccounts.$inferSelect;

/** The sum of a workspace's entries, kept with each of them. */
export const creditAccounts = sqliteTable("credit_accounts", {
  workspaceId: text("workspace_id")
    .primaryKey()
    .references(() => workspaces.id),
  balanceMicros: integer("balance_micros").notNull(),
  /** The balance after the last grant; null: its first credit is not booked yet. */
  fullMicros: integer("full_micros"),
  updatedAt: integer("updated_at").notNull(),
});
