import { Elysia } from "elysia";
import { z } from "zod";
import type { Ctx } from "../../../context.ts";
import {
  ANTHROPIC_POSITION,
  anthropicList,
  anthropicListOf,
  forwardOf,
  speaksAnthropic,
} from "../../../http/answer/anthropic.ts";
import { listOf, PageQuery } from "../../../http/answer/pagination.ts";
import { area } from "../../../http/auth.ts";
import { readBody } from "../../../http/body/json.ts";
import { keepOpen } from "../../../http/connection.ts";
import { creates } from "../../../http/idempotency.ts";
import { bodyLimits } from "../../../http/limits/body_limits.ts";
import { describe } from "../../../http/openapi.ts";
import { asks } from "../../../http/query.ts";
import { Deleted, flagText, Label, later, numberText } from "../../../lib/schema.ts";
import { SignedQuery } from "../../data/signed_urls/schema.ts";
import { findAgentModel, listUsable } from "../agents/listed.ts";
import { findServed } from "../deployments/served.ts";
import { stopTuned } from "../deployments/tuned.ts";
import { listRegistry } from "./registry/list.ts";
import { routes as registry } from "./registry/routes.ts";
import { remove } from "./remove.ts";
import { AnthropicModel, Model, present, presentAnthropic } from "./schema.ts";
import * as models from "./service.ts";
import { RenderedTemplate, RenderTemplate, renderTemplate } from "./template.ts";
import { CompleteModel, CreateModel, CreatePresignedUpload, PresignedUpload, ReceivedFile } from "./upload/schema.ts";
import * as upload from "./upload/upload.ts";

const PullModel = z
  .object({ name: Label(300).describe("owner/repo, owner/repo:QUANT or owner/repo:file.gguf") })
  .meta({ id: "PullModel" });
const ModelScan = later(() =>
  z.object({ object: z.literal("model.scan"), started: z.literal(true) }).meta({ id: "ModelScan" }),
);

const RegistryQuery = z.object({
  registry: flagText.default(false).describe("true: the models of the registry, deployed or not"),
});
const ListQuery = PageQuery.extend({
  ...RegistryQuery.shape,
  context_length: numberText(z.int().min(1).max(10_000_000))
    .optional()
    .describe("With registry=true: adds the memory that each model needs at this context"),
  ...ANTHROPIC_POSITION,
});

/** Needs no key: the signed address is the permission. */
const uploadRoute = (ctx: Ctx) =>
  new Elysia().put(
    "/:id/uploads/:upload",
    async ({ request, params }) => upload.receiveFile(ctx, request, params.id, params.upload),
    {
      ...asks(SignedQuery),
      parse: "none",
      detail: describe(
        "Upload a model's file to its signed address",
        { 200: ReceivedFile },
        { public: true, accepts: { "application/octet-stream": "The bytes of the file" } },
      ),
    },
  );

/** Shows how rows look to a model, so it belongs to training. */
const templateRoute = (ctx: Ctx) => {
  const { authed, takes } = area(ctx, "training");
  return new Elysia().use(authed).post(
    "/:id/template",
    ({ request, principal, params, body }) => {
      const caller = { workspaceId: principal.workspaceId, signal: AbortSignal.any([request.signal, ctx.closing]) };
      return renderTemplate(ctx, caller, params.id, body);
    },
    {
      ...takes(RenderTemplate),
      detail: describe(
        "Render conversations with a model's chat template",
        { 200: RenderedTemplate },
        { description: "The text that the model reads, and its number of tokens. Nothing is generated or stored." },
      ),
    },
  );
};

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
        { detail: describe("Scan the models folder now", { 202: ModelScan }) },
      ),
    )
    .use(uploadRoute(ctx))
    .use(templateRoute(ctx))
    .use(registry(ctx))
    .use(authed)
    .post(
      "",
      ({ request, principal, body, set }) =>
        creates(ctx, { request, principal, body, set }, () => present(upload.create(ctx, principal.workspaceId, body))),
      {
        ...takes(CreateModel),
        detail: describe("Create a model without a file; POST …/presigned-upload returns the address for its file", {
          201: Model,
        }),
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
        detail: describe("Get a signed address for one upload of the model's GGUF file without a key", {
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
          "Check the uploaded file, or convert the uploaded files to one, and make the model ready",
          { 200: Model },
          { accepts: { "application/json": CompleteModel } },
        ),
      },
    )
    .get(
      "",
      async ({ request, principal: { workspaceId }, query: { registry, context_length: context, ...query } }) => {
        const page = forwardOf(query);
        if (registry) return listRegistry(ctx, workspaceId, page, context);
        const listed = await listUsable(ctx, workspaceId, page);
        if (!speaksAnthropic(request)) return listed;
        return anthropicList({ ...listed, data: listed.data.map(presentAnthropic) });
      },
      {
        ...asks(ListQuery),
        detail: describe(
          "List the models that requests can use",
          { 200: z.union([listOf(Model, "ModelList"), anthropicListOf(AnthropicModel, "AnthropicModelList")]) },
          {
            description:
              "The deployments that run or are parked, by name, then the adapters that a request can name, then the agents of active deployments. An adapter is listed once, with the first deployment of its base model; `deployment:adapter` works with the others too. Each id works as `model` in POST /v1/chat/completions. With the header anthropic-version the answer has the format of Anthropic. With registry=true: all models of the workspace and of the installation, deployed or not, newest first.",
          },
        ),
      },
    )
    .get(
      "/:id",
      ({ request, principal: { workspaceId }, params: { id }, query: { registry } }) => {
        const served = registry
          ? undefined
          : (findServed(ctx, workspaceId, id) ?? findAgentModel(ctx, workspaceId, id));
        const model = served ?? present(models.mustGet(ctx, workspaceId, id));
        return speaksAnthropic(request) ? presentAnthropic(model) : model;
      },
      {
        ...asks(RegistryQuery),
        detail: describe(
          "Get a model by the name of its deployment, by id or by name",
          { 200: z.union([Model, AnthropicModel]) },
          { description: "A deployment comes before a model of the same name. With registry=true: the model." },
        ),
      },
    )
    .post(
      "/pull",
      ({ principal, body, set }) => {
        const row = models.request(ctx, principal.workspaceId, body.name, "/name");
        set.status = row.status === "ready" ? 200 : 202;
        return present(row);
      },
      {
        ...takes(PullModel),
        detail: describe("Download a model from the hub; `progress` shows its state", { 200: Model, 202: Model }),
      },
    )
    .delete(
      "/:id",
      ({ principal: { workspaceId }, params }) => {
        stopTuned(ctx, workspaceId, params.id);
        const { id } = remove(ctx, workspaceId, params.id);
        return { id, object: "model", deleted: true };
      },
      {
        detail: describe(
          "Delete a model of this workspace",
          { 200: Deleted("model") },
          { description: "The deployment that a fine-tuning job made of the model is stopped." },
        ),
      },
    );
};
