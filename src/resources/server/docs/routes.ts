import { Elysia } from "elysia";
import type { Ctx } from "../../../context.ts";
import { jsonResponse } from "../../../http/answer/compressed.ts";
import { openapiInTurns } from "../../../http/openapi.ts";
import type { AllRoutes } from "../../../http/route_groups.ts";
import { referencePage } from "../dashboard/service.ts";
import { withExamples } from "./examples.ts";

type Document = { body: string; etag: string };

/** The OpenAPI document and its reference page. Both need no key and reveal nothing about the installation. */
export const routes = (ctx: Ctx, all: AllRoutes) => {
  let document: Promise<Document> | undefined;
  return new Elysia()
    .get("/openapi.json", async ({ request }) => {
      document ??= render(all);
      return answer(await document, request);
    })
    .get("/docs", () => referencePage(ctx));
};

async function render(all: AllRoutes): Promise<Document> {
  const body = JSON.stringify(withExamples(await openapiInTurns(await all())));
  return { body, etag: `"${new Bun.CryptoHasher("sha256").update(body).digest("base64url").slice(0, 22)}"` };
}

async function answer({ body, etag }: Document, request: Request): Promise<Response> {
  const clientEtags = request.headers.get("if-none-match");
  const headers = { etag, "cache-control": "no-cache" };
  const fresh = clientEtags?.split(",").some((tag) => tag.trim().replace(/^W\//, "") === etag || tag.trim() === "*");
  if (fresh) return new Response(null, { status: 304, headers });
  return await jsonResponse(request, body, { headers });
}
