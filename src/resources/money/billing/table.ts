import { integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { apiKeys } from "../../access/api_keys/table.ts";
import { workspaces } from "../../access/workspaces/table.ts";

const ENTRY_KINDS = ["initial", "grant", "charge"] as const;
export const SUBJECT_KINDS = ["job", "deployment", "machine"] as const;

/**
 * Append-only: triggers reject every update and every deletion, except those of a merge that keeps every sum (merge.ts).
 * Entries outlive the rows of deleted workspaces.
 */
export const ledgerEntries = sqliteTable("ledger_entries", {
  id: text("id").primaryKey(),
  workspaceId: text("workspace_id").notNull(),
  kind: text("kind", { enum: ENTRY_KINDS }).notNull(),
  amountMicros: integer("amount_micros").notNull(),
  subjectKind: text("subject_kind", { enum: SUBJECT_KINDS }),
  subjectId: text("subject_id"),
  /** Identifies the stretch that is paid. Unique, so nothing is booked twice. */
  windowKey: text("window_key").notNull().unique(),
  usageMs: integer("usage_ms"),
  rateMicros: integer("rate_micros"),
  description: text("description").notNull(),
  createdAt: integer("created_at").notNull(),
  /** The key that caused the charge. */
  apiKeyId: text("api_key_id"),
  /** How many charges it is the sum of. Null: it is as it was booked. */
  mergedEntries: integer("merged_entries"),
});

/** One row while a commit merges charges: the amounts that it took out and has not put back. */
export const ledgerMerge = sqliteTable("ledger_merge", {
  id: integer("id").primaryKey(),
  amountMicros: integer("amount_micros").notNull(),
  usageMs: integer("usage_ms").notNull(),
});
export type EntryRow = typeof ledgerEntries.$inferSelect;
export type AccountRow = typeof creditAccounts.$inferSelect;

/** The sum of a workspace's entries, updated with each entry. */
export const creditAccounts = sqliteTable("credit_accounts", {
  workspaceId: text("workspace_id")
    .primaryKey()
    .references(() => workspaces.id),
  balanceMicros: integer("balance_micros").notNull(),
  /** The balance after the last grant; null: the initial credit is not booked yet. */
  fullMicros: integer("full_micros"),
  updatedAt: integer("updated_at").notNull(),
});

/** Spending of a key, and of the keys that share its budget, by month. Updated with each charge. */
export const apiKeySpending = sqliteTable(
  "api_key_spending",
  {
    keyId: text("key_id")
      .notNull()
      .references(() => apiKeys.id),
    /** A month of UTC, such as 2026-01. */
    month: text("month").notNull(),
    workspaceId: text("workspace_id")
      .notNull()
      .references(() => workspaces.id),
    spentMicros: integer("spent_micros").notNull(),
    updatedAt: integer("updated_at").notNull(),
  },
  (table) => [primaryKey({ columns: [table.keyId, table.month] })],
);
