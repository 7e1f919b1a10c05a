/** A conversation is an ordered list of traces under one id that the client gave. */
import { and, asc, desc, eq, sql } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { invalidCursor } from "../../../../http/answer/cursor.ts";
import type { PageQuery } from "../../../../http/answer/pagination.ts";
import { AppError } from "../../../../lib/errors.ts";
import { takingTurns } from "../../../../lib/turns.ts";
import { flush } from "../flush.ts";
import { withScores } from "../service.ts";
import { type ConversationRow, conversations, type TraceRow, traces } from "../table.ts";
import { presentConversation } from "./schema.ts";

const MAX_TRACES = 500;
const MAX_CHARACTERS = 8 * 1024 * 1024;
const BATCH = 10;

const find = (ctx: Ctx, workspaceId: string, id: string): ConversationRow | undefined =>
  ctx.db
    .select()
    .from(conversations)
    .where(and(eq(conversations.workspaceId, workspaceId), eq(conversations.id, id)))
    .get();

export function mustGet(ctx: Ctx, workspaceId: string, id: string): ConversationRow {
  flush(ctx, workspaceId);
  const row = find(ctx, workspaceId, id);
  if (row) return row;
  const message = `No conversation ${JSON.stringify(id.slice(0, 80))}: its deployment must have capture metadata or full`;
  throw new AppError("resource_not_found", message, { param: "id" });
}

/** Newest first by its first trace. `after` is the id of a conversation that exists. */
export function list(ctx: Ctx, workspaceId: string, { limit, after }: PageQuery) {
  flush(ctx, workspaceId);
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
  const data = rows.slice(0, limit).map(presentConversation);
  return { object: "list" as const, data, has_more: rows.length > limit };
}

/** Oldest first. */
export const tracesOf = (ctx: Ctx, { workspaceId, id }: ConversationRow, limit: number, offset = 0): TraceRow[] =>
  ctx.db
    .select()
    .from(traces)
    .where(and(eq(traces.workspaceId, workspaceId), eq(traces.conversationId, id)))
    .orderBy(asc(traces.createdAt), asc(traces.seq))
    .limit(limit)
    .offset(offset)
    .all();

export async function view(ctx: Ctx, row: ConversationRow) {
  const shown: ReturnType<typeof withScores> = [];
  const turn = takingTurns();
  for (let size = 0; shown.length < MAX_TRACES && size < MAX_CHARACTERS; ) {
    await turn();
    const next = withScores(ctx, tracesOf(ctx, row, BATCH, shown.length));
    shown.push(...next);
    size += JSON.stringify(next).length;
    if (next.length < BATCH) break;
  }
  return { ...presentConversation(row), traces: shown, has_more: shown.length < row.traceCount };
}
