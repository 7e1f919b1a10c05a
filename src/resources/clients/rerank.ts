/** POST /v1/rerank: documents in the order of their closeness to a query, by the embeddings of the model. */
import { Elysia } from "elysia";
import { z } from "zod";
import type { Ctx } from "../../context.ts";
import { area } from "../../http/auth.ts";
import { describe } from "../../http/openapi.ts";
import { type EmbeddingList, EmbeddingRequest } from "../../lib/chat/embedding.ts";
import { later } from "../../lib/schema.ts";
import { callModel, parsedAs } from "./call_model.ts";

const MAX_DOCUMENTS = 1_000;
const Document = z.union([z.string(), z.object({ text: z.string() })]);

export const RerankRequest = z
  .object({
    model: z.string().min(1).optional().describe("The name of the deployment. Default: the only one that runs"),
    query: z.string().min(1),
    documents: z.array(Document).min(1).max(MAX_DOCUMENTS),
    top_n: z.int().min(1).nullish().describe("Default: all"),
    return_documents: z.boolean().nullish(),
  })
  .meta({ id: "RerankRequest" });

export const Reranking = later(() =>
  z
    .object({
      object: z.literal("list"),
      model: z.string(),
      results: z
        .array(
          z.object({
            object: z.literal("rerank.result"),
            index: z.int().describe("The place of the document in the request"),
            relevance_score: z.number().describe("The cosine of the angle between both embeddings"),
            document: z.object({ text: z.string() }).optional(),
          }),
        )
        .describe("The closest document first"),
      usage: z.object({ prompt_tokens: z.int(), total_tokens: z.int() }),
    })
    .meta({ id: "Reranking" }),
);

const dot = (a: readonly number[], b: readonly number[]) => a.reduce((sum, value, i) => sum + value * (b[i] ?? 0), 0);

export const routes = (ctx: Ctx) => {
  const { authed, takes } = area(ctx, "inference");
  return new Elysia({ tags: ["Clients"] }).use(authed).post(
    "/v1/rerank",
    async ({ body, ...caller }) => {
      const texts = body.documents.map((each) => (typeof each === "string" ? each : each.text));
      const input = parsedAs(EmbeddingRequest, { model: body.model, input: [body.query, ...texts] });
      const { response } = await callModel(ctx, caller, "/embeddings", input);
      if (!response.ok) return response;
      const { data, model, usage } = (await response.json()) as EmbeddingList;
      const [query, ...vectors] = data.map(({ embedding }) => embedding as number[]);
      const scored = vectors.map((vector, index) => ({
        object: "rerank.result" as const,
        index,
        relevance_score: dot(query ?? [], vector),
        ...(body.return_documents ? { document: { text: texts[index] ?? "" } } : {}),
      }));
      const results = scored.sort((a, b) => b.relevance_score - a.relevance_score).slice(0, body.top_n ?? undefined);
      return { object: "list", model, results, usage };
    },
    {
      ...takes(RerankRequest, { kind: "chat" }),
      detail: describe(
        "Order documents by their closeness to a query",
        { 200: Reranking },
        { description: "By the embeddings of the model. Models that score pairs are not supported." },
      ),
    },
  );
};
