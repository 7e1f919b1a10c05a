import { Elysia } from "elysia";
import type { Ctx } from "../../../../context.ts";
import { area } from "../../../../http/auth.ts";
import { creates } from "../../../../http/idempotency.ts";
import { describe } from "../../../../http/openapi.ts";
import { asks } from "../../../../http/query.ts";
import { SignedQuery } from "../../../data/signed_urls/schema.ts";
import { Model, present } from "../schema.ts";
import * as models from "../service.ts";
import { capabilitiesOf } from "./capabilities.ts";
import { dependentsOf } from "./dependents.ts";
import { addressOfFile, sendFile } from "./download.ts";
import { rename } from "./names.ts";
import { requestQuantized } from "./quantize.ts";
import {
  CapabilitiesQuery,
  ModelCapabilities,
  ModelDependents,
  ModelFile,
  QuantizeModel,
  RenameModel,
} from "./schema.ts";

/** Needs no key: the signed address is the permission. */
const fileRoute = (ctx: Ctx) =>
  new Elysia().get("/:id/file", ({ request, params }) => sendFile(ctx, request, params.id), {
    ...asks(SignedQuery),
    detail: describe(
      "Download a model's file from its signed address",
      { 200: "application/octet-stream" },
      { public: true },
    ),
  });

/** Mounted below /v1/models. */
export const routes = (ctx: Ctx) => {
  const { authed, takes } = area(ctx, "inference");
  return new Elysia()
    .use(fileRoute(ctx))
    .use(authed)
    .patch(
      "/:id",
      ({ principal: { workspaceId }, params, body }) => present(rename(ctx, workspaceId, params.id, body.name)),
      {
        ...takes(RenameModel),
        detail: describe(
          "Rename a model of this workspace",
          { 200: Model },
          {
            description:
              "Deployments and jobs of the model stay. Adapters of it follow. A pulled model is also found by its name on the hub.",
          },
        ),
      },
    )
    .post(
      "/:id/quantize",
      ({ request, principal, params, body, set }) =>
        creates(ctx, { request, principal, body, set }, () => {
          const row = requestQuantized(ctx, principal.workspaceId, params.id, body);
          set.status = row.status === "ready" ? 200 : 202;
          return present(row);
        }),
      {
        ...takes(QuantizeModel),
        detail: describe(
          "Make a quantized copy of a model",
          { 200: Model, 202: Model },
          {
            description:
              "The copy is a model of its own, made in the background; `progress` shows its state. The weights of the model must be in F32, F16 or BF16. The types are mixed as llama.cpp does under the same names. Without `name`, a copy that is there already is returned.",
          },
        ),
      },
    )
    .get(
      "/:id/capabilities",
      ({ principal: { workspaceId }, params, query }) => capabilitiesOf(ctx, workspaceId, params.id, query),
      {
        ...asks(CapabilitiesQuery),
        detail: describe("Say what a model can do on this machine, and the memory that it needs", {
          200: ModelCapabilities,
        }),
      },
    )
    .get(
      "/:id/dependents",
      ({ principal: { workspaceId }, params }): ModelDependents => {
        const row = models.mustGet(ctx, workspaceId, params.id);
        return { object: "model.dependents", model_id: row.id, dependents: dependentsOf(ctx, row, workspaceId) };
      },
      {
        detail: describe(
          "List what depends on a model",
          { 200: ModelDependents },
          { description: "While something depends on a model, it cannot be deleted." },
        ),
      },
    )
    .get("/:id/download", ({ request, principal, params }) => addressOfFile(ctx, { request, principal }, params.id), {
      detail: describe(
        "Get a signed address of a model's GGUF file",
        { 200: ModelFile },
        {
          description:
            "For other formats of a training job's result, see GET /v1/training_jobs/{id}/model: PEFT, safetensors, merged or quantized GGUF.",
        },
      ),
    });
};
