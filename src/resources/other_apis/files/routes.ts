import { Elysia } from "elysia";
import type { Ctx } from "../../../context.ts";
import { listOf } from "../../../http/answer/pagination.ts";
import { area } from "../../../http/auth.ts";
import { uploadsBy } from "../../../http/body/upload.ts";
import { describe } from "../../../http/openapi.ts";
import { asks } from "../../../http/query.ts";
import { Deleted } from "../../../lib/schema.ts";
import { ClientFile, FilesQuery, present } from "./schema.ts";
import * as files from "./service.ts";
import { upload } from "./upload.ts";

const BIN = "application/octet-stream";

export const routes = (ctx: Ctx) => {
  const { authed } = area(ctx, "files");
  return new Elysia({ prefix: "/v1/files", tags: ["Clients"] })
    .use(authed)
    .post(
      "",
      ...uploadsBy(
        ctx,
        upload,
        describe(
          "Upload a file, in the format of OpenAI",
          { 200: ClientFile },
          {
            description: "Batches and fine-tuning jobs take the id of the file.",
            accepts: {
              "multipart/form-data": "file, purpose (fine-tune, batch, evals, user_data), expires_after[seconds]",
            },
          },
        ),
      ),
    )
    .get("", ({ principal, query }) => files.list(ctx, principal.workspaceId, query), {
      ...asks(FilesQuery),
      detail: describe("List files", { 200: listOf(ClientFile, "ClientFileList") }),
    })
    .get("/:id", ({ principal, params }) => present(files.mustGet(ctx, principal.workspaceId, params.id)), {
      detail: describe("Get a file", { 200: ClientFile }),
    })
    .get(
      "/:id/content",
      async ({ request, principal, params }) =>
        files.send(ctx, files.mustGet(ctx, principal.workspaceId, params.id), request),
      { detail: describe("Download the content of a file; supports Range", { 200: BIN, 206: BIN }) },
    )
    .delete(
      "/:id",
      ({ principal, params }) => {
        const { id } = files.remove(ctx, principal.workspaceId, params.id);
        return { id, object: "file", deleted: true };
      },
      { detail: describe("Delete a file", { 200: Deleted("file") }) },
    );
};
