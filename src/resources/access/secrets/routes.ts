import { Elysia } from "elysia";
import type { Ctx } from "../../../context.ts";
import { listOf, PageQuery } from "../../../http/answer/pagination.ts";
import { area } from "../../../http/auth.ts";
import { describe } from "../../../http/openapi.ts";
import { asks } from "../../../http/query.ts";
import { Deleted } from "../../../lib/schema.ts";
import { PutSecret, present, Secret, SecretName } from "./schema.ts";
import * as secrets from "./service.ts";

export const routes = (ctx: Ctx) => {
  const { authed, takes } = area(ctx, "account");
  return new Elysia({ prefix: "/v1/secrets", tags: ["Secrets"] })
    .use(authed)
    .get("", ({ principal, query }) => secrets.list(ctx, principal.workspaceId, query), {
      ...asks(PageQuery),
      detail: describe("List secrets; values are never shown", { 200: listOf(Secret, "SecretList") }),
    })
    .put(
      "/:name",
      ({ principal, params, body, set }) => {
        const { row, created } = secrets.put(ctx, principal.workspaceId, params.name, body);
        set.status = created ? 201 : 200;
        return present(row);
      },
      {
        params: SecretName,
        ...takes(PutSecret, { kind: "code" }),
        detail: describe("Create a secret (201) or replace its value (200)", { 200: Secret, 201: Secret }),
      },
    )
    .get("/:name", ({ principal, params }) => present(secrets.mustGet(ctx, principal.workspaceId, params.name)), {
      params: SecretName,
      detail: describe("Get a secret without its value", { 200: Secret }),
    })
    .delete(
      "/:name",
      ({ principal, params }) => {
        const { id } = secrets.remove(ctx, principal.workspaceId, params.name);
        return { id, object: "secret", deleted: true };
      },
      { params: SecretName, detail: describe("Delete a secret", { 200: Deleted("secret") }) },
    );
};
