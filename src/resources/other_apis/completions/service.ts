/** Chat completions that were created with store: true. */
import { and, asc, desc, eq, inArray, lt, type SQL, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { invalidCursor } from "../../../http/answer/cursor.ts";
import type { ChatCompletion, ChatCompletionRequest } from "../../../lib/chat/chat_completion.ts";
import { AppError } from "../../../lib/errors.ts";
import type { Metadata } from "../../../lib/schema.ts";
import { takingTurns } from "../../../lib/turns.ts";
import { MIB } from "../../../lib/units.ts";
import { type Tx, write } from "../../../platform/db/db.ts";
import { gradually } from "../../../platform/db/gradually.ts";
import { preparedRow } from "../../../platform/db/row.ts";
import { mustHaveRoom } from "../../data/storage_usage/service.ts";
import { clientList } from "../conversations/schema.ts";
import { type CompletionsQuery, type MessagesQuery, messagesOf, present, settingsOf } from "./schema.ts";
import { type CompletionRow, clientCompletions as table } from "./table.ts";

const BATCH = 200;
const PAGE_BYTES = 8 * MIB;

const byId = preparedRow(
  table,
  and(eq(table.workspaceId, sql.placeholder("workspaceId")), eq(table.id, sql.placeholder("id"))),
);

export function mustGet(ctx: Ctx, workspaceId: string, id: string): CompletionRow {
  const row = byId(ctx.db, { workspaceId, id });
  if (row) return row;
  const message = `No stored chat completion ${id.slice(0, 80)}: it was deleted, is too old, or was created without store: true`;
  throw new AppError("resource_not_found", message, { param: "id" });
}

const mustFit = (ctx: Ctx, tx: Tx, workspaceId: string) =>
  mustHaveRoom({ db: tx, config: ctx.config }, { workspaceId, kind: "chats" }, { bytes: 0 });

type NewCompletion = {
  workspaceId: string;
  body: ChatCompletionRequest;
  metadata: Metadata;
  requestId: string;
  completion: ChatCompletion;
};

export function store(ctx: Ctx, { workspaceId, body, metadata, requestId, completion }: NewCompletion) {
  const { id, model } = completion;
  const row = {
    id,
    workspaceId,
    model,
    metadata,
    createdAt: ctx.clock.now(),
    messages: JSON.stringify(body.messages),
    completion: JSON.stringify({ ...completion, ...settingsOf(body, requestId) }),
  };
  write(ctx.db, (tx) => {
    tx.insert(table).values(row).onConflictDoNothing().run(); // a node of the workspace may repeat an id
    mustFit(ctx, tx, workspaceId);
  });
}

type Position = Pick<CompletionRow, "createdAt" | "id">;

/** The condition for what comes after `after`. */
function beyond(ctx: Ctx, workspaceId: string, { after, order }: MessagesQuery): SQL | undefined {
  if (after === undefined) return undefined;
  const row = byId(ctx.db, { workspaceId, id: after });
  if (!row) throw invalidCursor(after, "the id of a stored chat completion");
  return behind(row, order);
}

function behind({ createdAt, id }: Position, order: "asc" | "desc"): SQL {
  const place = sql`(${table.createdAt}, ${table.id})`;
  return order === "asc" ? sql`${place} > (${createdAt}, ${id})` : sql`${place} < (${createdAt}, ${id})`;
}

type Filter = { metadata: Metadata };

/** Reads small parts of rows until a page is full: a filter may leave out many. */
export async function list(ctx: Ctx, workspaceId: string, query: CompletionsQuery & Filter) {
  const { limit, order, model } = query;
  const pairs = Object.entries(query.metadata);
  const fits = (row: Pick<CompletionRow, "model" | "metadata">) =>
    (model === undefined || row.model === model) &&
    pairs.every(([name, value]) => Object.hasOwn(row.metadata, name) && row.metadata[name] === value);
  const { id, createdAt, metadata, completion } = table;
  const columns = { id, createdAt, model: table.model, metadata, bytes: sql<number>`octet_length(${completion})` };
  const direction = order === "asc" ? asc : desc;
  const turn = takingTurns();
  const found: { id: string; bytes: number }[] = [];
  for (let from = beyond(ctx, workspaceId, query); found.length <= limit; ) {
    await turn();
    const rows = ctx.db
      .select(columns)
      .from(table)
      .where(and(eq(table.workspaceId, workspaceId), from))
      .orderBy(direction(createdAt), direction(id))
      .limit(BATCH)
      .all();
    found.push(...rows.filter(fits));
    const last = rows.at(-1);
    if (rows.length < BATCH || !last) break;
    from = behind(last, order);
  }
  const shown: string[] = [];
  let bytes = 0;
  for (const each of found.slice(0, limit)) {
    bytes += each.bytes;
    if (shown.length > 0 && bytes > PAGE_BYTES) break;
    shown.push(each.id);
  }
  const isShown = and(eq(table.workspaceId, workspaceId), inArray(id, shown));
  const whole = new Map(
    ctx.db
      .select()
      .from(table)
      .where(isShown)
      .all()
      .map((row) => [row.id, row]),
  );
  const data = shown.flatMap((each) => whole.get(each) ?? []).map(present);
  return clientList({ data, has_more: found.length > shown.length });
}

export function listMessages(row: CompletionRow, { limit, order, after }: MessagesQuery) {
  const all = messagesOf(row);
  if (order === "desc") all.reverse();
  const from = after === undefined ? 0 : all.findIndex(({ id }) => id === after) + 1;
  if (after !== undefined && from === 0) throw invalidCursor(after, "the id of a message of this completion");
  const data = all.slice(from, from + limit);
  return clientList({ data, has_more: from + data.length < all.length });
}

const isRow = ({ workspaceId, id }: CompletionRow) => and(eq(table.workspaceId, workspaceId), eq(table.id, id));

export function update(ctx: Ctx, workspaceId: string, id: string, metadata: Metadata): CompletionRow {
  return write(ctx.db, (tx) => {
    const row = mustGet(ctx, workspaceId, id);
    tx.update(table).set({ metadata }).where(isRow(row)).run();
    mustFit(ctx, tx, workspaceId);
    return { ...row, metadata };
  });
}

export function remove(ctx: Ctx, workspaceId: string, id: string): CompletionRow {
  const row = mustGet(ctx, workspaceId, id);
  write(ctx.db, (tx) => void tx.delete(table).where(isRow(row)).run());
  return row;
}

const removeWhere = (ctx: Ctx, where: SQL) =>
  gradually(ctx.db, (tx, rows) => {
    const some = tx.select({ at: sql`rowid` }).from(table).where(where).limit(rows);
    return tx.delete(table).where(sql`rowid IN ${some}`).returning({ id: table.id }).all().length;
  });

export const prune = (ctx: Ctx, before: number) => removeWhere(ctx, lt(table.createdAt, before));

/** For a workspace that is deleted. */
export const removeAll = (ctx: Ctx, workspaceId: string) => removeWhere(ctx, eq(table.workspaceId, workspaceId));
