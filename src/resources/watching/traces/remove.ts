import { and, eq, lte, type SQL, sql } from "drizzle-orm";
import type { Tx } from "../../../platform/db/db.ts";
import { type CountedScore, countScores, countTraces } from "./counts.ts";
import { removeText } from "./search/text.ts";
import { conversations, type TraceRow, traceScores, traces } from "./table.ts";

/**
 * Removes at most `limit` traces with their text, and conversations with their last trace; the database removes their
 * scores. Returns how many traces they were.
 */
export function removeWhere(tx: Tx, where: SQL | undefined, limit = Number.MAX_SAFE_INTEGER): number {
  const { seq, workspaceId, conversationId, promptTokens, completionTokens } = traces;
  const { id, source, createdAt, status, capture, model, deploymentId, user, tags } = traces;
  const counted = { id, source, createdAt, status, capture, model, deploymentId, user, tags };
  const columns = { seq, workspaceId, conversationId, promptTokens, completionTokens, ...counted };
  const rows = tx.select(columns).from(traces).where(where).limit(limit).all();
  if (rows.length === 0) return 0;
  for (const row of rows) removeText(tx, row.seq);
  countTraces(tx, rows, -1);
  countScores(tx, scoresOf(tx, rows), -1);
  const seqs = JSON.stringify(rows.map((row) => row.seq));
  tx.delete(traces).where(sql`${seq} IN (SELECT value FROM json_each(${seqs}))`).run();
  for (const some of Map.groupBy(rows, (row) => `${row.workspaceId} ${row.conversationId}`).values())
    shrinkConversation(tx, some);
  return rows.length;
}

function scoresOf(tx: Tx, rows: readonly Pick<TraceRow, "id" | "source">[]): CountedScore[] {
  const sources = new Map(rows.map(({ id, source }) => [id, source]));
  const { workspaceId, name, traceAt, traceId } = traceScores;
  const ids = JSON.stringify([...sources.keys()]);
  return tx
    .select({ workspaceId, name, traceAt, traceId })
    .from(traceScores)
    .where(sql`${traceId} IN (SELECT value FROM json_each(${ids}))`)
    .all()
    .map((score) => ({ ...score, source: sources.get(score.traceId) ?? "chat" }));
}

type Removed = Pick<TraceRow, "workspaceId" | "conversationId" | "promptTokens" | "completionTokens">;

/** `removed` are of one conversation, or of none. */
function shrinkConversation(tx: Tx, removed: readonly Removed[]) {
  const [first] = removed;
  if (!first || first.conversationId === null) return;
  const { workspaceId, id, traceCount, promptTokens, completionTokens } = conversations;
  const isIt = and(eq(workspaceId, first.workspaceId), eq(id, first.conversationId));
  const sum = (name: "promptTokens" | "completionTokens") => removed.reduce((total, row) => total + row[name], 0);
  const set = {
    traceCount: sql`${traceCount} - ${removed.length}`,
    promptTokens: sql`${promptTokens} - ${sum("promptTokens")}`,
    completionTokens: sql`${completionTokens} - ${sum("completionTokens")}`,
  };
  tx.update(conversations).set(set).where(isIt).run();
  tx.delete(conversations)
    .where(and(isIt, lte(traceCount, 0)))
    .run();
}
