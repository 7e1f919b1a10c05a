import { Elysia } from "elysia";
import type { Ctx } from "../../../context.ts";
import { anthropicList } from "../../../http/answer/anthropic.ts";
import { area } from "../../../http/auth.ts";
import { keepOpen } from "../../../http/connection.ts";
import { rootOf } from "../../../http/host.ts";
import { describe } from "../../../http/openapi.ts";
import { asks } from "../../../http/query.ts";
import * as openaiBatches from "../batches/service.ts";
import type { BatchRow } from "../batches/table.ts";
import {
  CreateMessageBatch,
  DeletedMessageBatch,
  MessageBatch,
  MessageBatchesQuery,
  MessageBatchList,
  MOST_REQUESTS,
  presentMessageBatch,
} from "./batch_schema.ts";
import * as batches from "./batches.ts";

const JSONL = "application/x-jsonl";

export const batchRoutes = (ctx: Ctx) => {
  const { authed, takes } = area(ctx, "inference");
  const presentFor = (request: Request) => (row: BatchRow) => presentMessageBatch(row, rootOf(ctx, request));
  return new Elysia({ prefix: "/v1/messages/batches", tags: ["Clients"] })
    .use(authed)
    .post(
      "",
      async ({ request, principal, body, set }) =>
        batches.create(ctx, { request, principal, body, set }, presentFor(request)),
      {
        ...takes(CreateMessageBatch, { kind: "requests", list: { name: "requests", most: MOST_REQUESTS } }),
        detail: describe(
          "Create a batch of messages, in the format of Anthropic",
          { 200: MessageBatch },
          { description: "The requests run in the background and leave room for others." },
        ),
      },
    )
    .get(
      "",
      ({ request, principal, query }) =>
        anthropicList(batches.list(ctx, principal.workspaceId, query, presentFor(request))),
      { ...asks(MessageBatchesQuery), detail: describe("List batches of messages", { 200: MessageBatchList }) },
    )
    .get(
      "/:id",
      ({ request, principal, params }) => presentFor(request)(batches.mustGet(ctx, principal.workspaceId, params.id)),
      { detail: describe("Get a batch of messages", { 200: MessageBatch }) },
    )
    .get(
      "/:id/results",
      ({ request, principal, params }) => {
        keepOpen(ctx, request);
        const results = batches.resultsOf(ctx, principal.workspaceId, params.id);
        return new Response(results, { headers: { "content-type": JSONL } });
      },
      { detail: describe("Get the results of a batch of messages, one on each line", { 200: JSONL }) },
    )
    .post(
      "/:id/cancel",
      ({ request, principal: { workspaceId }, params }) => {
        const { id } = batches.mustGet(ctx, workspaceId, params.id);
        return presentFor(request)(openaiBatches.cancel(ctx, workspaceId, id));
      },
      { detail: describe("Cancel a batch of messages; its results so far stay", { 200: MessageBatch }) },
    )
    .delete(
      "/:id",
      ({ principal, params }) => {
        batches.remove(ctx, principal.workspaceId, params.id);
        return { id: params.id, type: "message_batch_deleted" };
      },
      { detail: describe("Delete a batch of messages that has ended, with its results", { 200: DeletedMessageBatch }) },
    );
};
