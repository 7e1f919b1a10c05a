import { Elysia } from "elysia";
import type { Ctx } from "../../../../context.ts";
import { area } from "../../../../http/auth.ts";
import { describe } from "../../../../http/openapi.ts";
import { asks } from "../../../../http/query.ts";
import { SignedQuery } from "../../../data/signed_urls/schema.ts";
import { byName, mustGet } from "../state/rows.ts";
import { download, ModelDownload, ModelQuery, send } from "./download.ts";

const TAGS = ["Training jobs"];
const PREFIX = "/v1/training_jobs";
const BIN = "application/octet-stream";

export const modelRoutes = (ctx: Ctx) => {
  const { authed } = area(ctx, "training");
  const keyed = new Elysia({ prefix: PREFIX, tags: TAGS })
    .use(authed)
    .use(byName(ctx))
    .get(
      "/:id/model",
      async ({ request, principal, params, query, set }) => {
        const job = mustGet(ctx, principal.workspaceId, params.id);
        const answer = await download(ctx, { request, principal }, job, query);
        if (answer.status === "preparing") {
          set.status = 202;
          set.headers["retry-after"] = "2";
        }
        return answer;
      },
      {
        ...asks(ModelQuery),
        detail: describe(
          "Get a download URL for the model that a job made",
          { 200: ModelDownload, 202: ModelDownload },
          { description: "202: the file is being made; ask again. A merged file is also added to the models." },
        ),
      },
    );
  const signed = new Elysia({ prefix: PREFIX, tags: TAGS }).get(
    "/:id/exports/:export",
    ({ request, params }) => send(ctx, request, { jobId: params.id, exportId: params.export }),
    {
      ...asks(SignedQuery),
      detail: describe("Download a file by its signed URL; supports Range", { 200: BIN, 206: BIN }, { public: true }),
    },
  );
  return new Elysia().use(keyed).use(signed);
};
