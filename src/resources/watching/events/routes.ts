import { Elysia } from "elysia";
import type { Ctx } from "../../../context.ts";
import { streamFor } from "../../../http/answer/sse.ts";
import { area } from "../../../http/auth.ts";
import { describe } from "../../../http/openapi.ts";
import { asks } from "../../../http/query.ts";
import { AppError } from "../../../lib/errors.ts";
import type { SseMessage } from "../../../lib/net/sse.ts";
import { durable } from "../../../platform/db/db.ts";
import { EventList, EventQuery, present } from "./schema.ts";
import * as feed from "./service.ts";

export const routes = (ctx: Ctx) => {
  const { authed } = area(ctx, "account");
  return new Elysia({ prefix: "/v1/events", tags: ["Events"] }).use(authed).get(
    "",
    async ({ principal, query, request }) => {
      const { workspaceId } = principal;
      const types = feed.typesOf(query.types);
      const after = request.headers.get("last-event-id") ?? query.after;
      const afterSeq = feed.seqOf(ctx, workspaceId, after);
      if (query.order === "desc" && query.stream === "1")
        throw new AppError("schema", "order: a stream goes forward. Leave order out, or stream", { param: "order" });
      if (query.stream === "1")
        return streamFor(ctx, { request, principal }, (signal) =>
          messages(ctx, { workspaceId, afterSeq, types }, signal),
        );
      const limit = query.limit + 1;
      const isBack = query.order === "desc";
      const beforeSeq = after === undefined || after === feed.LATEST ? Number.MAX_SAFE_INTEGER : afterSeq;
      const rows = isBack
        ? feed.readBack(ctx, { workspaceId, beforeSeq, types, limit })
        : feed.readPage(ctx, { workspaceId, afterSeq, types, limit }).rows;
      await durable(ctx.db); // a reader keeps the last id as its cursor: it must never name a lost event
      return { object: "list", data: rows.slice(0, query.limit).map(present), has_more: rows.length > query.limit };
    },
    {
      ...asks(EventQuery),
      detail: describe(
        "Read the event feed",
        { 200: EventList },
        {
          description:
            "Oldest first, unless order is desc. With stream=1 the answer is text/event-stream: one message per event, its id in `id`; the first message has an `id` alone, the position where the stream begins. With types, a message with an `id` alone says how far the stream has moved past events of other types. Reconnect with Last-Event-ID.",
        },
      ),
    },
  );
};

async function* messages(
  ctx: Ctx,
  at: Parameters<typeof feed.follow>[1],
  signal: AbortSignal,
): AsyncGenerator<SseMessage> {
  const id = feed.idAt(ctx, at.workspaceId, at.afterSeq);
  if (id !== undefined) {
    await durable(ctx.db); // a cursor never names a lost event
    yield { id }; // a client that is cut off before the first event continues here
  }
  for await (const step of feed.follow(ctx, at, signal))
    yield "row" in step ? { id: step.row.id, event: step.row.type, data: present(step.row) } : { id: step.id };
}
