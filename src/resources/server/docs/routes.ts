import { Elysia } from "elysia";
import type { Ctx } from "../../../context.ts";
import { jsonResponse } from "../../../http/answer/compressed.ts";
import { openapiInTurns } from "../../../http/openapi.ts";
import type { AllRoutes } from "../../../http/route_groups.ts";
import { AppError } from "../../../lib/errors.ts";
import { referencePage } from "../dashboard/service.ts";
import { referenceOf } from "./chapters.ts";
import { withExamples } from "./examples.ts";

type Document = { body: string; etag: string };
type Documents = { contract: Document; index: Document; chapters: ReadonlyMap<string, Document> };

/** The OpenAPI document and its reference page. Both need no key and reveal nothing about the installation. */
export const routes = (ctx: Ctx, all: AllRoutes) => {
  let documents: Promise<Documents> | undefined;
  const rendered = () => {
    documents ??= render(all);
    return documents;
  };
  return new Elysia()
    .get("/openapi.json", async ({ request }) => answer((await rendered()).contract, request))
    .get("/docs", () => referencePage(ctx))
    .get("/docs/chapters", async ({ request }) => answer((await rendered()).index, request))
    .get("/docs/chapters/:name", async ({ request, params: { name } }) => {
      const chapter = (await rendered()).chapters.get(name);
      if (!chapter) throw new AppError("resource_not_found", `The reference has no chapter ${name}: reload the page`);
      return await answer(chapter, request);
    });
};

async function render(all: AllRoutes): Promise<Documents> {
  const contract = withExamples(await openapiInTurns(await all()));
  const { index, contracts } = await referenceOf(contract as Parameters<typeof referenceOf>[0]);
  const chapters = [...contracts].map(([name, chapter]) => [name, documentOf(chapter)] as const);
  return { contract: documentOf(contract), index: documentOf(index), chapters: new Map(chapters) };
}

function documentOf(value: unknown): Document {
  const body = JSON.stringify(value);
  return { body, etag: `"${new Bun.CryptoHasher("sha256").update(body).digest("base64url").slice(0, 22)}"` };
}

async function answer({ body, etag }: Document, request: Request): Promise<Response> {
  const clientEtags = request.headers.get("if-none-match");
  const headers = { etag, "cache-control": "no-cache" };
  const fresh = clientEtags?.split(",").some((tag) => tag.trim().replace(/^W\//, "") === etag || tag.trim() === "*");
  if (fresh) return new Response(null, { status: 304, headers });
  return await jsonResponse(request, body, { headers });
}
