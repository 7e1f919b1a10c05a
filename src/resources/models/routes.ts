import { Elysia } from "elysia";
import { z } from "zod";
import type { Ctx } from "../../context.ts";
import { area } from "../../http/auth.ts";
import { describe } from "../../http/openapi.ts";
import { listOf, PageQuery } from "../../http/pagination.ts";
import { asks } from "../../http/query.ts";
import { Deleted, Label } from "../../lib/schema.ts";
import { Model, present } from "./schema.ts";
import * as models from "./service.ts";

export const PullModel = z
  .object({ name: Label(300).describe("owner/repo, owner/repo:QUANT or owner/repo:file.gguf") })
  .meta({ id: "PullModel" });
export const ModelScan = z
  .object({ object: z.literal("model.scan"), started: z.literal(true) })
  .meta({ id: "ModelScan" });

export const routes = (ctx: Ctx) => {
  const { authed, takes } = area(ctx, "inference");
  const operator = area(ctx, "admin");
  return new Elysia({ prefix: "/v1/models", tags: ["Models"] })
    .use(
      new Elysia().use(operator.authed).post(
        "/scan",
        ({ set }) => {
          ctx.wake("models.scan");
          set.status = 202;
          return { object: "model.scan", started: true };
        },
        { detail: describe("Look at the models folder now, not within the next minute", { 202: ModelScan }) },
      ),
    )
    .use(authed)
    .get("", ({ principal, query }) => models.list(ctx, principal.workspaceId, query), {
      ...asks(PageQuery),
      detail: describe("List models: your own and those of this installation", { 200: listOf(Model, "ModelList") }),
    })
    .get("/:id", ({ principal, params }) => present(models.mustGet(ctx, principal.workspaceId, params.id)), {
      detail: describe("Get a model by id or by name", { 200: Model }),
    })
    .post(
      "/pull",
      ({ principal, body, set }) => {
        const row = models.request(ctx, principal.workspaceId, body.name, "/name");
        set.status = row.status === "ready" ? 200 : 202;
        return present(row);
      },
      {
        ...takes(PullModel),
        detail: describe("Fetch a model from the hub; `progress` tells how far it is", { 200: Model, 202: Model }),
      },
    )
    .delete(
      "/:id",
      ({ principal, params }) => {
        const { id } = models.remove(ctx, principal.workspaceId, params.id);
        return { id, object: "model", deleted: true };
      },
      { detail: describe("Delete a model that was fetched for this workspace", { 200: Deleted("model") }) },
    );
};
