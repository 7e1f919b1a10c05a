import { Elysia } from "elysia";
import type { Ctx } from "../../../context.ts";
import { area } from "../../../http/auth.ts";
import { describe } from "../../../http/openapi.ts";
import { asks } from "../../../http/query.ts";
import { queryOf } from "../../../lib/net/request_target.ts";
import {
  CompletionList,
  CompletionsQuery,
  DeletedCompletion,
  MessageList,
  MessagesQuery,
  present,
  StoredCompletion,
  UpdateCompletion,
} from "./schema.ts";
import * as completions from "./service.ts";

const PAIR = /^metadata\[(.+)\]$/s;

/** The pairs of `metadata[name]=value`. */
const pairsOf = (request: Request): Record<string, string> =>
  Object.fromEntries(
    [...queryOf(request)].flatMap(([name, value]) => {
      const key = PAIR.exec(name)?.[1];
      return key === undefined ? [] : [[key, value]];
    }),
  );

export const routes = (ctx: Ctx) => {
  const { authed, takes } = area(ctx, "inference");
  return new Elysia({ prefix: "/v1/chat/completions", tags: ["Clients"] })
    .use(authed)
    .get(
      "",
      ({ request, principal, query }) =>
        completions.list(ctx, principal.workspaceId, { ...query, metadata: pairsOf(request) }),
      {
        ...asks(CompletionsQuery, PAIR),
        detail: describe(
          "List stored chat completions",
          { 200: CompletionList },
          { description: "A chat with store: true is stored. A page is shorter than limit when its answers are long." },
        ),
      },
    )
    .get("/:id", ({ principal, params }) => present(completions.mustGet(ctx, principal.workspaceId, params.id)), {
      detail: describe("Get a stored chat completion", { 200: StoredCompletion }),
    })
    .post(
      "/:id",
      ({ principal, params, body }) =>
        present(completions.update(ctx, principal.workspaceId, params.id, body.metadata ?? {})),
      {
        ...takes(UpdateCompletion),
        detail: describe("Change the metadata of a stored chat completion", { 200: StoredCompletion }),
      },
    )
    .delete(
      "/:id",
      ({ principal, params }) => {
        const { id } = completions.remove(ctx, principal.workspaceId, params.id);
        return { id, object: "chat.completion.deleted", deleted: true };
      },
      { detail: describe("Delete a stored chat completion", { 200: DeletedCompletion }) },
    )
    .get(
      "/:id/messages",
      ({ principal, params, query }) =>
        completions.listMessages(completions.mustGet(ctx, principal.workspaceId, params.id), query),
      {
        ...asks(MessagesQuery),
        detail: describe("List the messages of the request of a stored chat completion", { 200: MessageList }),
      },
    );
};
