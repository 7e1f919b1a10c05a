/** Stored responses: a later request continues one by `previous_response_id`, or reads it by its id. */
import { and, eq, lt, type SQL, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { transition } from "../../../events/lifecycle.ts";
import { AppError } from "../../../lib/errors.ts";
import { type Tx, write } from "../../../platform/db/db.ts";
import { gradually } from "../../../platform/db/gradually.ts";
import { preparedInsert, preparedRow } from "../../../platform/db/row.ts";
import { limitWaiting } from "../../../platform/db/waiting_limit.ts";
import { mustHaveRoom } from "../../data/storage_usage/service.ts";
import { clientItems } from "../conversations/table.ts";
import type { InputItem, KnownItem } from "./items.ts";
import { machine } from "./machine.ts";
import type { ModelResponse } from "./schema.ts";
import { type ResponseRow, responses } from "./table.ts";
import { responseOfItem } from "./translate.ts";

const MAX_CHAIN = 1_000; // responses that one request continues

const insert = preparedInsert(responses);
const byId = preparedRow(
  responses,
  and(eq(responses.id, sql.placeholder("id")), eq(responses.workspaceId, sql.placeholder("workspaceId"))),
);

/** The column has the status; the answer in the row may be older. */
export const present = ({ response, status }: ResponseRow): ModelResponse => ({
  ...response,
  conversation: response.conversation ?? null, // rows of older versions have none
  status,
});

export function mustGet(ctx: Ctx, workspaceId: string, id: string): ResponseRow {
  const row = byId(ctx.db, { id, workspaceId });
  if (row) return row;
  const message = `No stored response ${id.slice(0, 80)}: it was deleted, is too old, or was created with store: false`;
  throw new AppError("resource_not_found", message, { param: "id" });
}

const COMPACTED = "The conversation before this message, in short:";
const aadOf = (workspaceId: string) => `responses.compaction:${workspaceId}`;

/** `text`: a summary, which only this workspace can send back. */
export const sealSummary = (ctx: Ctx, workspaceId: string, text: string): string =>
  ctx.secrets.seal(text, aadOf(workspaceId));

function summaryOf(ctx: Ctx, workspaceId: string, sealed: string, at: string): KnownItem {
  try {
    const summary = new TextDecoder().decode(ctx.secrets.open(sealed, aadOf(workspaceId)));
    return { type: "message", role: "user", content: `${COMPACTED}\n\n${summary}` };
  } catch (cause) {
    const message = `${at.replace("/", ".")}.encrypted_content: is not from POST /v1/responses/compact of this workspace`;
    throw new AppError("schema", message, { param: `/${at}/encrypted_content`, cause });
  }
}

/** The stored item of a response or of a conversation. */
function storedItem(ctx: Ctx, workspaceId: string, id: string): KnownItem | undefined {
  const row = byId(ctx.db, { id: responseOfItem(id) ?? "", workspaceId });
  const found = row?.response.output.find((item) => item.id === id);
  if (found) return found;
  const isIt = and(eq(clientItems.id, id), eq(clientItems.workspaceId, workspaceId));
  const kept = ctx.db.select({ item: clientItems.item }).from(clientItems).where(isIt).get();
  return kept && (JSON.parse(kept.item) as KnownItem);
}

/**
 * The items of a request. A reference becomes the stored item that it names, and a summary a message. `at`: the field
 * of the request, for errors.
 */
export function itemsOf(
  ctx: Ctx,
  workspaceId: string,
  input: string | readonly InputItem[],
  at = "input",
): KnownItem[] {
  if (typeof input === "string") return [{ type: "message", role: "user", content: input }];
  return input.map((item, index) => {
    if (item.type === "compaction") return summaryOf(ctx, workspaceId, item.encrypted_content, `${at}/${index}`);
    if (item.type !== "item_reference") return item;
    const found = storedItem(ctx, workspaceId, item.id);
    if (found) return found;
    const message = `${at}.${index}.id: no stored item ${item.id.slice(0, 80)}. Send the item itself`;
    throw new AppError("schema", message, { param: `/${at}/${index}/id` });
  });
}

/** The items of a stored response and of all that it continues, the oldest first. */
export function historyOf(ctx: Ctx, workspaceId: string, previousId: string): KnownItem[] {
  const turns: KnownItem[][] = [];
  for (let id: string | null = previousId; id !== null; ) {
    const row: ResponseRow | undefined = byId(ctx.db, { id, workspaceId });
    if (!row) throw notContinuable(previousId, id === previousId ? "is not stored" : `continues ${id}, which is gone`);
    if (row.status !== "completed" && row.status !== "incomplete")
      throw notContinuable(previousId, `cannot be continued: ${id} is ${row.status}`);
    if (turns.length === MAX_CHAIN) throw notContinuable(previousId, `continues more than ${MAX_CHAIN} responses`);
    turns.push([...row.input, ...row.response.output]);
    id = row.previousId;
  }
  return turns.reverse().flat();
}

function notContinuable(id: string, why: string): AppError {
  const message = `previous_response_id: ${id.slice(0, 80)} ${why}. Send the whole conversation in input`;
  return new AppError("schema", message, { param: "/previous_response_id" });
}

type NewResponse = Pick<ResponseRow, "workspaceId" | "keyId" | "input" | "task"> & { response: ModelResponse };

export function store(ctx: Ctx, { response, ...row }: NewResponse): ResponseRow {
  const { id, status, previous_response_id: previousId } = response;
  const now = ctx.clock.now();
  return write(ctx.db, (tx) => {
    if (isDue(status)) limitWaiting({ db: tx, config: ctx.config }, "responses", responses, dueOf(row.workspaceId));
    const stored = insert(tx, { ...row, id, status, previousId, response, createdAt: now, updatedAt: now });
    mustHaveRoom({ db: tx, config: ctx.config }, { workspaceId: row.workspaceId, kind: "chats" }, { bytes: 0 });
    return stored;
  });
}

const isDue = (status: ResponseRow["status"]) => status === "queued" || status === "in_progress";

/** The index of due responses is small. Without the plus, all responses of the workspace would be read. */
const dueOf = (workspaceId: string) =>
  sql`${responses.status} IN ('queued', 'in_progress') AND +${responses.workspaceId} = ${workspaceId}`;

export function remove(ctx: Ctx, workspaceId: string, id: string): ResponseRow {
  const row = mustGet(ctx, workspaceId, id);
  write(ctx.db, (tx) => void tx.delete(responses).where(eq(responses.id, id)).run());
  ctx.state.responses.running.get(id)?.stop.abort(new Error("the response was deleted"));
  return row;
}

/** Ends the work on a background response. One that has ended stays as it is. */
export function cancel(ctx: Ctx, workspaceId: string, id: string): ResponseRow {
  const before = mustGet(ctx, workspaceId, id);
  if (!before.response.background)
    throw new AppError("unsupported_state", "Only a response with background: true can be cancelled");
  const now = ctx.clock.now();
  const row = write(ctx.db, (tx) => transition(tx, machine, "cancel", { id, now }, { task: null }));
  ctx.state.responses.running.get(id)?.stop.abort(new Error("the response was cancelled"));
  return row ?? before;
}

function removeWhere(tx: Tx, where: SQL, limit: number): number {
  const some = tx.select({ id: responses.id }).from(responses).where(where).limit(limit);
  return tx.delete(responses).where(sql`${responses.id} IN ${some}`).returning({ id: responses.id }).all().length;
}

export const prune = (ctx: Ctx, before: number) =>
  gradually(ctx.db, (tx, rows) => removeWhere(tx, lt(responses.createdAt, before), rows));

/** For a workspace that is deleted. */
export const removeAll = (ctx: Ctx, workspaceId: string) =>
  gradually(ctx.db, (tx, rows) => removeWhere(tx, eq(responses.workspaceId, workspaceId), rows));
