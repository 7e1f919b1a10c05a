import { Elysia } from "elysia";
import type { Ctx } from "../../../context.ts";
import { area } from "../../../http/auth.ts";
import { keepOpen } from "../../../http/connection.ts";
import { creates } from "../../../http/idempotency.ts";
import { describe } from "../../../http/openapi.ts";
import { CompleteUpload, CreateUpload, FileUpload, FileUploadPart } from "./part_schema.ts";
import * as parts from "./parts.ts";

export const routes = (ctx: Ctx) => {
  const { authed, takes } = area(ctx, "files");
  return new Elysia({ prefix: "/v1/uploads", tags: ["Clients"] })
    .use(authed)
    .post(
      "",
      ({ request, principal, body, set }) =>
        creates(ctx, { request, principal, body, set }, () => {
          set.status = 200; // as OpenAI answers
          return parts.create(ctx, principal.workspaceId, body);
        }),
      {
        ...takes(CreateUpload),
        detail: describe(
          "Create an upload in parts, in the format of OpenAI",
          { 200: FileUpload },
          { description: "It takes parts for one hour. Their bytes count as files." },
        ),
      },
    )
    .post(
      "/:id/parts",
      async ({ request, principal, set, params }) => {
        keepOpen(ctx, request);
        return await parts.add(ctx, { request, principal, set }, params.id);
      },
      {
        parse: "none",
        detail: describe(
          "Add a part to an upload",
          { 200: FileUploadPart },
          {
            description: "Parts may come at the same time. Their order is said when the upload is completed.",
            accepts: { "multipart/form-data": "data: the bytes of the part" },
          },
        ),
      },
    )
    .post(
      "/:id/complete",
      async ({ request, principal, params, body }) => {
        keepOpen(ctx, request);
        return await parts.complete(ctx, principal.workspaceId, params.id, body);
      },
      {
        ...takes(CompleteUpload),
        detail: describe(
          "Complete an upload: its parts become a file",
          { 200: FileUpload },
          { description: "A second call answers with the same file. Parts that it does not name are removed." },
        ),
      },
    )
    .post("/:id/cancel", ({ principal, params }) => parts.cancel(ctx, principal.workspaceId, params.id), {
      detail: describe("Cancel an upload and remove its parts", { 200: FileUpload }),
    });
};
