import { Elysia } from "elysia";
import type { Ctx } from "../../context.ts";
import { listOf, PageQuery } from "../../http/answer/pagination.ts";
import { area } from "../../http/auth.ts";
import { creates } from "../../http/idempotency.ts";
import { describe } from "../../http/openapi.ts";
import { asks } from "../../http/query.ts";
import { Deleted } from "../../lib/schema.ts";
import { ApiKey, CreateApiKey, CreatedApiKey } from "./schema.ts";
import * as keys from "./service.ts";

export const routes = (ctx: Ctx) => {
  const { authed, takes } = area(ctx, "account");
  return new Elysia({ prefix: "/v1/api_keys", tags: ["API keys"] })
    .use(authed)
    .post(
      "",
      ({ request, principal, body, set }) =>
        creates(ctx, { request, principal, body, set }, () => {
          const { row, key } = keys.createBy(ctx, principal, body);
          return { ...keys.show(ctx, row), key };
        }),
      {
        ...takes(CreateApiKey),
        detail: describe("Create an API key; the answer is the only one that shows it", { 201: CreatedApiKey }),
      },
    )
    .get("", ({ principal, query }) => keys.list(ctx, principal.workspaceId, query), {
      ...asks(PageQuery),
      detail: describe("List the API keys that are not revoked and not expired", { 200: listOf(ApiKey, "ApiKeyList") }),
    })
    .delete(
      "/:id",
      ({ principal, params }) => {
        const { id } = keys.revoke(ctx, principal.workspaceId, params.id);
        return { id, object: "api_key", deleted: true };
      },
      { detail: describe("Revoke an API key", { 200: Deleted("api_key") }) },
    );
};
