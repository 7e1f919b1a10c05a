/** A conversation is an ordered list of traces under one id that the client gave. */
import { and, asc, desc, eq, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { invalidCursor } from "../../../http/answer/cursor.ts";
import type { PageQuery } from "../../../http/answer/pagination.ts";
import { AppError } from "../../../lib/errors.ts";
import { flush } from "../flush.ts";
import { presentTrace } from "../schema.ts";
import { scoresOf } from "../service.ts";
import { type ConversationRow, conversations, type TraceRow, traces } from "../table.ts";
import { presentConversation, type Sums } from "./schema.ts";

const MAX_TRACES = 500;

const find = (ctx: Ctx, workspaceId: string, id: string): ConversationRow | undefined =>
  ctx.db
    .select()
    .from(conversations)
    .where(and(eq(conversations.workspaceId, workspaceId), eq(conversations.id, id)))
    .get();

export function mustGet(ctx: Ctx, workspaceId: string, id: string): ConversationRow {
  flush(ctx);
  const row = find(ctx, workspaceId, id);
  if (row) return row;
  const message = `No conversation ${JSON.stringify(id.slice(0, 80))}: its deployment must have capture metadata or full`;
  throw new AppError("resource_not_found", message, { param: "id" });
}

/** Newest first by its first trace. `after` is the id of a conversation that exists. */
export function list(ctx: Ctx, workspaceId: string, { limit, after }: PageQuery) {
  flush(ctx);
  const from = after === undefined ? undefined : find(ctx, workspaceId, after);
  if (after !== undefined && !from) throw invalidCursor(after, "the id of a conversation");
  const { createdAt, id } = conversations;
  const rows = ctx.db
    .select()
    .from(conversations)
    .where(
      and(
        eq(conversations.workspaceId, workspaceId),
        from && sql`(${createdAt}, ${id}) < (${from.createdAt}, ${from.id})`,
      ),
    )
    .orderBy(desc(createdAt), desc(id))
    .limit(limit + 1)
    .all();
  const data = rows.slice(0, limit).map((row) => presentConversation(row, sumsOf(ctx, row)));
  return { object: "list" as const, data, has_more: rows.length > limit };
}

const ofConversation = ({ workspaceId, id }: ConversationRow) =>
  and(eq(traces.workspaceId, workspaceId), eq(traces.conversationId, id));

function sumsOf(ctx: Ctx, row: ConversationRow): Sums {
  const sum = (column: typeof traces.promptTokens | typeof traces.completionTokens) => sql<number>`total(${column})`;
  const found = ctx.db
    .select({
      traces: sql<number>`count(*)`,
      prompt: sum(traces.promptTokens),
      completion: sum(traces.completionTokens),
    })
    .from(traces)
    .where(ofConversation(row))
    .get();
  return found ?? { traces: 0, prompt: 0, completion: 0 };
}

/** Oldest first. */
export const tracesOf = (ctx: Ctx, row: ConversationRow, limit: number): TraceRow[] =>
  ctx.db
    .select()
    .from(traces)
    .where(ofConversation(row))
    .orderBy(asc(traces.createdAt), asc(traces.seq))
    .limit(limit)
    .all();

export function view(ctx: Ctx, row: ConversationRow) {
  const rows = tracesOf(ctx, row, MAX_TRACES + 1);
  const shown = rows.slice(0, MAX_TRACES);
  const scores = Map.groupBy(
    scoresOf(
      ctx,
      shown.map(({ id }) => id),
    ),
    ({ traceId }) => traceId,
  );
  return {
    ...presentConversation(row, sumsOf(ctx, row)),
    traces: shown.map((trace) => presentTrace(trace, scores.get(trace.id) ?? [])),
    has_more: rows.length > MAX_TRACES,
  };
}
