import { Elysia } from "elysia";
import type { Ctx } from "../../../context.ts";
import { listOf, PageQuery } from "../../../http/answer/pagination.ts";
import { area } from "../../../http/auth.ts";
import { uploadsBy } from "../../../http/body/upload.ts";
import { describe } from "../../../http/openapi.ts";
import { asks } from "../../../http/query.ts";
import { Deleted } from "../../../lib/schema.ts";
import { CodeArtifact, present } from "./schema.ts";
import * as artifacts from "./service.ts";
import { upload } from "./upload.ts";

const BIN = "application/octet-stream";

export const routes = (ctx: Ctx) => {
  const { authed } = area(ctx, "training");
  return new Elysia({ prefix: "/v1/code_artifacts", tags: ["Code artifacts"] })
    .use(authed)
    .post(
      "",
      ...uploadsBy(
        ctx,
        upload,
        describe(
          "Upload an archive of code",
          { 200: CodeArtifact, 201: CodeArtifact },
          {
            description: "200: the workspace already has an artifact with the same content, which is returned.",
            accepts: { "multipart/form-data": "file (.tar.gz, .tgz or .zip), name, metadata (JSON)" },
          },
        ),
      ),
    )
    .get("", ({ principal, query }) => artifacts.list(ctx, principal.workspaceId, query), {
      ...asks(PageQuery),
      detail: describe("List code artifacts", { 200: listOf(CodeArtifact, "CodeArtifactList") }),
    })
    .get("/:id", ({ principal, params }) => present(artifacts.mustGet(ctx, principal.workspaceId, params.id)), {
      detail: describe("Get a code artifact", { 200: CodeArtifact }),
    })
    .get(
      "/:id/content",
      async ({ request, principal, params }) => artifacts.send(ctx, principal.workspaceId, params.id, request),
      { detail: describe("Download the archive; supports Range", { 200: BIN, 206: BIN }) },
    )
    .delete(
      "/:id",
      ({ principal, params }) => {
        const { id } = artifacts.remove(ctx, principal.workspaceId, params.id);
        return { id, object: "code_artifact", deleted: true };
      },
      { detail: describe("Delete a code artifact", { 200: Deleted("code_artifact") }) },
    );
};
