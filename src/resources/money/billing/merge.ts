/**
 * Merges old charges of deployments and machines, which are one a minute, into one entry for each, key, rate and day of
 * UTC. Every sum over them stays the same: triggers of the database let an entry grow only by what was deleted. Each day
 * of a deployment is one commit, so a kill leaves it merged or as it was.
 */
import { and, asc, eq, gt, gte, inArray, lt, min, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { formatDuration } from "../../../lib/time.ts";
import { nextTurn } from "../../../lib/turns.ts";
import { DAY_MS } from "../../../lib/units.ts";
import { type Db, type Tx, write } from "../../../platform/db/db.ts";
import { type EntryRow, ledgerEntries, ledgerMerge } from "./table.ts";

const MOST_ENTRIES = 5_000; // in one commit; a day of one deployment has about 1,440

const { id, subjectId, createdAt } = ledgerEntries;
/** The exact condition of the index ledger_entries_unmerged. */
const isUnmerged = sql`${ledgerEntries.subjectKind} IN ('deployment', 'machine') AND ${ledgerEntries.mergedEntries} IS NULL`;

/** Returns how many entries were removed. */
export async function mergeCharges(ctx: Pick<Ctx, "db" | "clock" | "config">, signal?: AbortSignal): Promise<number> {
  const days = ctx.config.billing.merge_after_days;
  if (days === 0) return 0;
  const now = ctx.clock.now();
  const before = startOfDay(now - days * DAY_MS);
  let removed = 0;
  for (let subject = nextSubject(ctx.db, ""); subject !== null; subject = nextSubject(ctx.db, subject)) {
    const current = subject;
    for (let merged = 0; merged >= 0; await nextTurn()) {
      if (signal?.aborted) return removed;
      merged = write(ctx.db, (tx) => mergeOldest(tx, current, before));
      removed += Math.max(0, merged);
    }
  }
  return removed;
}

const startOfDay = (time: number) => Math.floor(time / DAY_MS) * DAY_MS;

const nextSubject = (db: Db, after: string): string | null =>
  db
    .select({ id: min(subjectId) })
    .from(ledgerEntries)
    .where(and(isUnmerged, gt(subjectId, after)))
    .get()?.id ?? null;

/** Merges the oldest day of a deployment. Returns how many entries were removed; -1 if no day is old enough. */
function mergeOldest(tx: Tx, subject: string, before: number): number {
  const isMergeable = and(isUnmerged, eq(subjectId, subject));
  const oldest =
    tx
      .select({ at: min(createdAt) })
      .from(ledgerEntries)
      .where(isMergeable)
      .get()?.at ?? before;
  if (oldest >= before) return -1;
  const day = startOfDay(oldest);
  const entries = tx
    .select()
    .from(ledgerEntries)
    .where(and(isMergeable, gte(createdAt, day), lt(createdAt, day + DAY_MS)))
    .orderBy(asc(createdAt), asc(id))
    .limit(MOST_ENTRIES)
    .all();
  const groups = Map.groupBy(entries, (entry) => JSON.stringify([entry.workspaceId, entry.apiKeyId, entry.rateMicros]));
  tx.insert(ledgerMerge).values({ id: 1, amountMicros: 0, usageMs: 0 }).run();
  for (const group of groups.values()) mergeGroup(tx, group);
  tx.delete(ledgerMerge).run();
  return entries.length - groups.size;
}

/** The last entry stays, so that its place in the list does too. */
function mergeGroup(tx: Tx, group: readonly EntryRow[]) {
  const last = group.at(-1)!;
  const others = group.slice(0, -1).map((entry) => entry.id);
  const usageMs = sum(group, (entry) => entry.usageMs ?? 0);
  const amountMicros = sum(group, (entry) => entry.amountMicros);
  const description = others.length === 0 ? last.description : describeDay(last, usageMs, group.length);
  if (others.length > 0) tx.delete(ledgerEntries).where(inArray(id, others)).run();
  tx.update(ledgerEntries)
    .set({ amountMicros, usageMs, description, mergedEntries: group.length })
    .where(eq(id, last.id))
    .run();
}

const sum = <T>(items: readonly T[], of: (item: T) => number) => items.reduce((total, item) => total + of(item), 0);

/** `Deployment chat: 1 m at $2.0000 an hour` → `Deployment chat: 1 d at $2.0000 an hour (1440 charges of 2026-01-31)` */
function describeDay({ description, createdAt: at }: EntryRow, usageMs: number, count: number): string {
  const [, label, rate] = /^(.*): .*?( at \S+ an hour)$/.exec(description) ?? [undefined, description, ""];
  return `${label}: ${formatDuration(usageMs)}${rate} (${count} charges of ${new Date(at).toISOString().slice(0, 10)})`;
}
