import { Elysia } from "elysia";
import type { Ctx } from "../../../context.ts";
import { listOf, PageQuery } from "../../../http/answer/pagination.ts";
import { area } from "../../../http/auth.ts";
import { creates } from "../../../http/idempotency.ts";
import { describe } from "../../../http/openapi.ts";
import { asks } from "../../../http/query.ts";
import { Deleted } from "../../../lib/schema.ts";
import { HOUR_MS } from "../../../lib/units.ts";
import { rotate } from "./rotate.ts";
import { ApiKey, CreateApiKey, CreatedApiKey, RotateApiKey } from "./schema.ts";
import * as keys from "./service.ts";

const SHOWN_ONCE = { field: "key", fix: "If it is lost, rotate this key or create another one." };

export const routes = (ctx: Ctx) => {
  const { authed, takes } = area(ctx, "account");
  return new Elysia({ prefix: "/v1/api_keys", tags: ["API keys"] })
    .use(authed)
    .post(
      "",
      ({ request, principal, body, set }) =>
        creates(
          ctx,
          { request, principal, body, set },
          () => {
            const { row, key } = keys.createBy(ctx, principal, body);
            return { ...keys.show(ctx, row), key };
          },
          SHOWN_ONCE,
        ),
      {
        ...takes(CreateApiKey),
        detail: describe("Create an API key; the answer is the only one that shows it", { 201: CreatedApiKey }),
      },
    )
    .get("", ({ principal, query }) => keys.list(ctx, principal.workspaceId, query), {
      ...asks(PageQuery),
      detail: describe("List the API keys that are not revoked and not expired", { 200: listOf(ApiKey, "ApiKeyList") }),
    })
    .post(
      "/:id/rotate",
      ({ request, principal, params, body, set }) =>
        creates(
          ctx,
          { request, principal, body, set },
          () => {
            const { workspaceId } = principal;
            const graceMs = body.grace_hours * HOUR_MS;
            const { row, key } = rotate(ctx, { workspaceId, id: params.id, graceMs, by: principal });
            return { ...keys.show(ctx, row), key };
          },
          SHOWN_ONCE,
        ),
      {
        ...takes(RotateApiKey),
        detail: describe(
          "Replace an API key by a new one with the same scopes, budget and life",
          { 201: CreatedApiKey },
          {
            description:
              "The old key works until grace_hours have passed. Both share one budget. Users rotate their own keys; keys of services are rotated by every key that could create them.",
          },
        ),
      },
    )
    .delete(
      "/:id",
      ({ principal, params }) => {
        const { id } = keys.revoke(ctx, principal.workspaceId, params.id);
        return { id, object: "api_key", deleted: true };
      },
      { detail: describe("Revoke an API key", { 200: Deleted("api_key") }) },
    );
};
