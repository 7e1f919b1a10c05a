/** A response reads the items of its conversation, and adds its own at the end. */
import { asc, eq } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";
import { takingTurns } from "../../../lib/turns.ts";
import type { Tx } from "../../../platform/db/db.ts";
import type { KnownItem } from "../responses/items.ts";
import type { ConversationRef, ModelResponse } from "../responses/schema.ts";
import { append, bytesOf, hasItem } from "./append.ts";
import { readItems } from "./items.ts";
import { find, mustGet } from "./service.ts";
import { clientItems } from "./table.ts";

const BATCH = 50;

/** The ids on the way to the newest item, or to `leaf`, the oldest first. */
function pathTo(ctx: Ctx, conversationId: string, leaf: string | undefined): string[] {
  const links = ctx.db
    .select({ id: clientItems.id, parentId: clientItems.parentId })
    .from(clientItems)
    .where(eq(clientItems.conversationId, conversationId))
    .orderBy(asc(clientItems.position))
    .all();
  const parents = new Map(links.map(({ id, parentId }) => [id, parentId]));
  const path: string[] = [];
  for (let id = leaf ?? links.at(-1)?.id ?? null; id !== null; id = parents.get(id) ?? null) path.push(id);
  return path.reverse();
}

/** The items that come before those of a request. */
export async function contextOf(
  ctx: Ctx,
  workspaceId: string,
  { id, parent_id }: ConversationRef,
): Promise<KnownItem[]> {
  const conversation = mustGet(ctx, workspaceId, id, "/conversation");
  if (parent_id !== undefined && !hasItem(ctx.db, id, parent_id))
    throw new AppError("schema", `conversation.parent_id: no item ${parent_id.slice(0, 80)} in ${id}`, {
      param: "/conversation/parent_id",
    });
  const path = pathTo(ctx, conversation.id, parent_id);
  const most = ctx.config.http.max_body_bytes;
  const items: KnownItem[] = [];
  const turn = takingTurns();
  for (let at = 0, bytes = 0; at < path.length; at += BATCH)
    for (const { item } of readItems(ctx, path.slice(at, at + BATCH))) {
      await turn();
      bytes += bytesOf(item);
      if (bytes > most)
        throw new AppError(
          "payload_too_large",
          `conversation: its items have more than ${most} bytes (http.max_body_bytes)`,
        );
      items.push(JSON.parse(item) as KnownItem);
    }
  return items;
}

type Answered = { workspaceId: string; input: readonly KnownItem[]; response: ModelResponse };

/** In the commit that stores the answer. A conversation that was removed meanwhile stays removed. */
export function appendAnswer(ctx: Ctx, tx: Tx, { workspaceId, input, response }: Answered) {
  const { conversation: ref, model, output, status } = response;
  if (!ref || (status !== "completed" && status !== "incomplete")) return;
  const conversation = find(ctx, workspaceId, ref.id);
  if (!conversation) return;
  const parentId = ref.parent_id !== undefined && hasItem(tx, ref.id, ref.parent_id) ? ref.parent_id : undefined;
  const entries = [...input.map((item) => ({ item })), ...output.map((item) => ({ item, id: item.id, model }))];
  append(
    ctx,
    tx,
    conversation,
    entries.map((entry, i) => (i === 0 ? { ...entry, parentId } : entry)),
  );
}
