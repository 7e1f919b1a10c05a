import { Elysia } from "elysia";
import { z } from "zod";
import type { Ctx } from "../../../context.ts";
import { anthropicList, anthropicListOf, speaksAnthropic } from "../../../http/answer/anthropic.ts";
import { listOf } from "../../../http/answer/pagination.ts";
import { area } from "../../../http/auth.ts";
import { uploadsBy } from "../../../http/body/upload.ts";
import { describe } from "../../../http/openapi.ts";
import { asks } from "../../../http/query.ts";
import { Deleted } from "../../../lib/schema.ts";
import { AnthropicFile, presentAnthropic } from "./anthropic.ts";
import { ClientFile, FilesQuery, present } from "./schema.ts";
import * as files from "./service.ts";
import { upload } from "./upload.ts";

const EitherFile = z.union([ClientFile, AnthropicFile]);
const FileLists = z.union([listOf(ClientFile, "ClientFileList"), anthropicListOf(AnthropicFile, "AnthropicFileList")]);
const DeletedFile = z.union([Deleted("file"), z.object({ id: z.string(), type: z.literal("file_deleted") })]);
const BIN = "application/octet-stream";
const description =
  "With the header anthropic-version the request and the answer have the format of Anthropic, which has no purpose.";

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
          { 200: EitherFile },
          {
            description: `Batches and fine-tuning jobs take the id of the file. ${description}`,
            accepts: {
              "multipart/form-data": "file, purpose (fine-tune, batch, evals, user_data), expires_after[seconds]",
            },
          },
        ),
      ),
    )
    .get(
      "",
      ({ request, principal: { workspaceId }, query }) =>
        speaksAnthropic(request)
          ? anthropicList(files.list(ctx, workspaceId, query, presentAnthropic))
          : files.list(ctx, workspaceId, query, present),
      {
        ...asks(FilesQuery),
        detail: describe("List files", { 200: FileLists }, { description }),
      },
    )
    .get(
      "/:id",
      ({ request, principal, params }) => {
        const file = files.mustGet(ctx, principal.workspaceId, params.id);
        return speaksAnthropic(request) ? presentAnthropic(file) : present(file);
      },
      { detail: describe("Get a file", { 200: EitherFile }, { description }) },
    )
    .get(
      "/:id/content",
      async ({ request, principal, params }) =>
        files.send(ctx, files.mustGet(ctx, principal.workspaceId, params.id), request),
      { detail: describe("Download the content of a file; supports Range", { 200: BIN, 206: BIN }) },
    )
    .delete(
      "/:id",
      ({ request, principal, params }) => {
        const { id } = files.remove(ctx, principal.workspaceId, params.id);
        if (speaksAnthropic(request)) return { id, type: "file_deleted" };
        return { id, object: "file", deleted: true };
      },
      { detail: describe("Delete a file", { 200: DeletedFile }) },
    );
};
