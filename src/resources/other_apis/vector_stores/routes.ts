import { Elysia } from "elysia";
import type { Ctx } from "../../../context.ts";
import { area } from "../../../http/auth.ts";
import { keepOpen } from "../../../http/connection.ts";
import { creates } from "../../../http/idempotency.ts";
import { describe } from "../../../http/openapi.ts";
import { asks } from "../../../http/query.ts";
import { warn } from "../../../http/warnings.ts";
import { clientListOf } from "../conversations/schema.ts";
import { CreateStore, deletedAs, Search, SearchResults, StoresQuery, UpdateStore, VectorStore } from "./schema.ts";
import { search } from "./search.ts";
import * as stores from "./service.ts";

const DeletedStore = deletedAs("vector_store.deleted", "DeletedVectorStore");

export const routes = (ctx: Ctx) => {
  const { authed, takes } = area(ctx, "inference");
  return new Elysia({ prefix: "/v1/vector_stores", tags: ["Clients"] })
    .use(authed)
    .post(
      "",
      ({ request, principal, body, set }) =>
        creates(ctx, { request, principal, body, set }, () => {
          set.status = 200; // as OpenAI answers
          if (body.description) warn(request, "/description");
          return stores.shown(ctx, stores.create(ctx, principal.workspaceId, body));
        }),
      {
        ...takes(CreateStore),
        detail: describe(
          "Create a vector store, in the format of OpenAI",
          { 200: VectorStore },
          { description: "Its files are split into chunks and embedded in the background by a deployment." },
        ),
      },
    )
    .get("", ({ principal, query }) => stores.list(ctx, principal.workspaceId, query), {
      ...asks(StoresQuery),
      detail: describe("List vector stores", { 200: clientListOf(VectorStore, "VectorStoreList") }),
    })
    .get("/:id", ({ principal, params }) => stores.shown(ctx, stores.mustGet(ctx, principal.workspaceId, params.id)), {
      detail: describe("Get a vector store", { 200: VectorStore }),
    })
    .post(
      "/:id",
      ({ principal, params, body }) => stores.shown(ctx, stores.update(ctx, principal.workspaceId, params.id, body)),
      {
        ...takes(UpdateStore),
        detail: describe("Change the name, the metadata or the expiry of a vector store", { 200: VectorStore }),
      },
    )
    .delete(
      "/:id",
      ({ principal, params: { id } }) => {
        stores.remove(ctx, principal.workspaceId, id);
        return { id, object: "vector_store.deleted", deleted: true };
      },
      { detail: describe("Delete a vector store; the files stay", { 200: DeletedStore }) },
    )
    .post(
      "/:id/search",
      ({ request, principal, params, body }) => {
        keepOpen(ctx, request);
        if (body.rewrite_query) warn(request, "/rewrite_query");
        const store = stores.mustBeOpen(ctx, principal.workspaceId, params.id);
        return search(ctx, principal, store, body, request.signal);
      },
      {
        ...takes(Search),
        detail: describe(
          "Search a vector store",
          { 200: SearchResults },
          { description: "By the cosine of the embeddings of the query and of each chunk, the nearest first." },
        ),
      },
    );
};
