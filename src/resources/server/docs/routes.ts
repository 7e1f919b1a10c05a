import { type AnyElysia, Elysia } from "elysia";
import type { Ctx } from "../../../context.ts";
import { openapiInTurns } from "../../../http/openapi.ts";
import { referencePage } from "../dashboard/service.ts";
import { withExamples } from "./examples.ts";

type Document = { body: string; etag: string };

/**
 * The OpenAPI document and its reference page. Both need no key and reveal nothing about the installation. A function
 * plugin gets the application that it is mounted on. All routes are mounted before the first request.
 */
export const routes = (ctx: Ctx) => (app: AnyElysia) => {
  let document: Promise<Document> | undefined;
  return app.use(
    new Elysia()
      .get("/openapi.json", async ({ request }) => {
        document ??= render(app);
        return answer(await document, request.headers.get("if-none-match"));
      })
      .get("/docs", () => referencePage(ctx)),
  );
};

async function render(app: AnyElysia): Promise<Document> {
  const body = JSON.stringify(withExamples(await openapiInTurns(app)));
  return { body, etag: `"${new Bun.CryptoHasher("sha256").update(body).digest("base64url").slice(0, 22)}"` };
}

function answer({ body, etag }: Document, known: string | null): Response {
  const headers = { etag, "cache-control": "no-cache" };
  const fresh = known?.split(",").some((tag) => tag.trim().replace(/^W\//, "") === etag || tag.trim() === "*");
  if (fresh) return new Response(null, { status: 304, headers });
  return new Response(body, { headers: { ...headers, "content-type": "application/json" } });
}
