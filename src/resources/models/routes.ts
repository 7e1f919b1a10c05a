import { Elysia } from "elysia";
import { z } from "zod";
import type { Ctx } from "../../context.ts";
import { listOf, PageQuery } from "../../http/answer/pagination.ts";
import { area } from "../../http/auth.ts";
import { readBody } from "../../http/body/json.ts";
import { keepOpen } from "../../http/connection.ts";
import { creates } from "../../http/idempotency.ts";
import { bodyLimits } from "../../http/limits/body_limits.ts";
import { describe } from "../../http/openapi.ts";
import { asks } from "../../http/query.ts";
import { Deleted, Label, later } from "../../lib/schema.ts";
import { SignedQuery } from "../signed_urls/schema.ts";
import { Model, present } from "./schema.ts";
import * as models from "./service.ts";
import { CompleteModel, CreateModel, CreatePresignedUpload, PresignedUpload, ReceivedFile } from "./upload/schema.ts";
import * as upload from "./upload/upload.ts";

export const PullModel = z
  .object({ name: Label(300).describe("owner/repo, owner/repo:QUANT or owner/repo:file.gguf") })
  .meta({ id: "PullModel" });
export const ModelScan = later(() =>
  z.object({ object: z.literal("model.scan"), started: z.literal(true) }).meta({ id: "ModelScan" }),
);

/** Without a key: the address itself is the permission. */
const sending = (ctx: Ctx) =>
  new Elysia().put(
    "/:id/uploads/:upload",
    async ({ request, params }) => upload.receiveFile(ctx, request, params.id, params.upload),
    {
      ...asks(SignedQuery),
      parse: "none",
      detail: describe(
        "Send a model's file to its signed address",
        { 200: ReceivedFile },
        { public: true, accepts: { "application/octet-stream": "The bytes of the file" } },
      ),
    },
  );

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
    .use(sending(ctx))
    .use(authed)
    .post(
      "",
      ({ request, principal, body, set }) =>
        creates(ctx, { request, principal, body, set }, () => present(upload.create(ctx, principal.workspaceId, body))),
      {
        ...takes(CreateModel),
        detail: describe("Create a model that has no file yet; presigned-upload says where to send it", { 201: Model }),
      },
    )
    .post(
      "/:id/presigned-upload",
      async ({ request, principal, params, body, set }) => {
        const here = await upload.findHere(ctx, principal.workspaceId, body);
        return creates(ctx, { request, principal, body, set }, () =>
          upload.presign(ctx, { asker: { request, principal }, id: params.id, body, here }),
        );
      },
      {
        ...takes(CreatePresignedUpload),
        detail: describe("Get an address to send a model's GGUF file to, once, without a key", {
          201: PresignedUpload,
        }),
      },
    )
    .post(
      "/:id/complete",
      async ({ request, principal, params }) => {
        keepOpen(ctx, request);
        const body = await readBody(ctx, request, bodyLimits(ctx, "small"), CompleteModel, {});
        return present(await upload.complete(ctx, principal.workspaceId, params.id, body.upload_id));
      },
      {
        parse: "none",
        detail: describe(
          "Check the file that was sent; then the model is ready",
          { 200: Model },
          { accepts: { "application/json": CompleteModel } },
        ),
      },
    )
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
