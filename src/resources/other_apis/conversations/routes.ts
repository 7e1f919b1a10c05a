import { Elysia } from "elysia";
import type { Ctx } from "../../../context.ts";
import { PageQuery } from "../../../http/answer/pagination.ts";
import { area } from "../../../http/auth.ts";
import { readBody } from "../../../http/body/json.ts";
import { creates } from "../../../http/idempotency.ts";
import { bodyLimits } from "../../../http/limits/body_limits.ts";
import { describe } from "../../../http/openapi.ts";
import { asks } from "../../../http/query.ts";
import { listItems, mustGetItem, removeItem } from "./items.ts";
import {
  Conversation,
  ConversationItem,
  CreateConversation,
  CreateItems,
  clientList,
  clientListOf,
  DeletedConversation,
  ItemsQuery,
  present,
  presentItem,
  UpdateConversation,
} from "./schema.ts";
import * as conversations from "./service.ts";

const ItemList = clientListOf(ConversationItem, "ConversationItemList");

export const routes = (ctx: Ctx) => {
  const { authed, takes } = area(ctx, "inference");
  return new Elysia({ prefix: "/v1/conversations", tags: ["Clients"] })
    .use(authed)
    .post(
      "",
      async ({ request, principal, set }) => {
        const body = await readBody(ctx, request, bodyLimits(ctx, "chat"), CreateConversation, {});
        return creates(ctx, { request, principal, body, set }, () => {
          set.status = 200; // as OpenAI answers
          return present(conversations.create(ctx, principal.workspaceId, body));
        });
      },
      {
        parse: "none",
        detail: describe(
          "Create a conversation, in the format of OpenAI",
          { 200: Conversation },
          {
            description: "POST /v1/responses with conversation reads its items, and adds what is said.",
            accepts: { "application/json": CreateConversation },
          },
        ),
      },
    )
    .get("", ({ principal, query }) => conversations.list(ctx, principal.workspaceId, query), {
      ...asks(PageQuery),
      detail: describe(
        "List conversations of clients, newest first",
        { 200: clientListOf(Conversation, "ConversationList") },
        { description: "GET /v1/traces/conversations has those of traces." },
      ),
    })
    .get("/:id", ({ principal, params }) => present(conversations.mustGet(ctx, principal.workspaceId, params.id)), {
      detail: describe("Get a conversation", { 200: Conversation }),
    })
    .post(
      "/:id",
      ({ principal, params, body }) => present(conversations.update(ctx, principal.workspaceId, params.id, body)),
      {
        ...takes(UpdateConversation),
        detail: describe("Change the name or the metadata of a conversation", { 200: Conversation }),
      },
    )
    .delete(
      "/:id",
      ({ principal, params }) => {
        const { id } = conversations.remove(ctx, principal.workspaceId, params.id);
        return { id, object: "conversation.deleted", deleted: true };
      },
      { detail: describe("Delete a conversation with its items", { 200: DeletedConversation }) },
    )
    .post(
      "/:id/items",
      ({ request, principal, params, body, set }) =>
        creates(ctx, { request, principal, body, set }, () => {
          set.status = 200;
          const rows = conversations.addItems(ctx, principal.workspaceId, params.id, body.items);
          return clientList({ data: rows.map(presentItem), has_more: false });
        }),
      { ...takes(CreateItems, { kind: "chat" }), detail: describe("Add items to a conversation", { 200: ItemList }) },
    )
    .get(
      "/:id/items",
      ({ principal, params, query }) =>
        listItems(ctx, conversations.mustGet(ctx, principal.workspaceId, params.id), query),
      {
        ...asks(ItemsQuery),
        detail: describe(
          "List the items of a conversation",
          { 200: ItemList },
          { description: "In their order, all branches. A page is shorter than limit when its items are long." },
        ),
      },
    )
    .get(
      "/:id/items/:item",
      ({ principal, params }) =>
        presentItem(mustGetItem(ctx, conversations.mustGet(ctx, principal.workspaceId, params.id), params.item)),
      { detail: describe("Get an item of a conversation", { 200: ConversationItem }) },
    )
    .delete(
      "/:id/items/:item",
      ({ principal, params }) => present(removeItem(ctx, principal.workspaceId, params.id, params.item)),
      {
        detail: describe(
          "Delete an item of a conversation",
          { 200: Conversation },
          { description: "The items that follow it follow its parent from then on." },
        ),
      },
    );
};
