import { Elysia } from "elysia";
import type { Ctx } from "../../../context.ts";
import { listOf, PageQuery } from "../../../http/answer/pagination.ts";
import { area } from "../../../http/auth.ts";
import { creates } from "../../../http/idempotency.ts";
import { describe } from "../../../http/openapi.ts";
import { asks } from "../../../http/query.ts";
import { Batch, CreateBatch, present } from "./schema.ts";
import * as batches from "./service.ts";

export const routes = (ctx: Ctx) => {
  const { authed, takes } = area(ctx, "inference");
  return new Elysia({ prefix: "/v1/batches", tags: ["Clients"] })
    .use(authed)
    .post(
      "",
      ({ request, principal, body, set }) =>
        creates(ctx, { request, principal, body, set }, () => {
          set.status = 200; // as OpenAI answers
          return present(batches.create(ctx, principal, body));
        }),
      {
        ...takes(CreateBatch),
        detail: describe(
          "Create a batch of inference requests, in the format of OpenAI",
          { 200: Batch },
          { description: "The requests run in the background and leave room for others. Results become files." },
        ),
      },
    )
    .get("", ({ principal, query }) => batches.list(ctx, principal.workspaceId, query), {
      ...asks(PageQuery),
      detail: describe("List batches", { 200: listOf(Batch, "BatchList") }),
    })
    .get("/:id", ({ principal, params }) => present(batches.mustGet(ctx, principal.workspaceId, params.id)), {
      detail: describe("Get a batch", { 200: Batch }),
    })
    .post("/:id/cancel", ({ principal, params }) => present(batches.cancel(ctx, principal.workspaceId, params.id)), {
      detail: describe("Cancel a batch; its results so far become files", { 200: Batch }),
    });
};
