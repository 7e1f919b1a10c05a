import { Elysia } from "elysia";
import type { Ctx } from "../../../context.ts";
import { listOf, PageQuery } from "../../../http/answer/pagination.ts";
import { area } from "../../../http/auth.ts";
import { creates } from "../../../http/idempotency.ts";
import { describe } from "../../../http/openapi.ts";
import { asks } from "../../../http/query.ts";
import { CreatePush, HubPush, present } from "./schema.ts";
import * as pushes from "./service.ts";

const TAGS = ["Models"];

export const modelRoutes = (ctx: Ctx) => {
  const { authed, takes } = area(ctx, "training");
  return new Elysia({ prefix: "/v1/models", tags: TAGS })
    .use(authed)
    .post(
      "/:id/push",
      ({ request, principal, params, body, set }) =>
        creates(ctx, { request, principal, body, set }, () =>
          present(pushes.create(ctx, principal.workspaceId, params.id, body)),
        ),
      {
        ...takes(CreatePush),
        detail: describe(
          "Push a model to the hub; `progress` shows its state",
          { 201: HubPush },
          {
            description:
              "The id or name of a model, or the id of a training job. The repository gets a model card. The token is the secret HUB_TOKEN of the workspace, else hub.token where the operator allows it.",
          },
        ),
      },
    );
};

export const routes = (ctx: Ctx) => {
  const { authed } = area(ctx, "training");
  return new Elysia({ prefix: "/v1/hub_pushes", tags: TAGS })
    .use(authed)
    .get("", ({ principal, query }) => pushes.list(ctx, principal.workspaceId, query), {
      ...asks(PageQuery),
      detail: describe("List the pushes of models to the hub", { 200: listOf(HubPush, "HubPushList") }),
    })
    .get("/:id", ({ principal, params }) => present(pushes.mustGet(ctx, principal.workspaceId, params.id)), {
      detail: describe("Get a push", { 200: HubPush }),
    })
    .post("/:id/cancel", ({ principal, params }) => present(pushes.cancel(ctx, principal.workspaceId, params.id)), {
      detail: describe("Cancel a push; what the hub has already stays there", { 200: HubPush }),
    });
};
