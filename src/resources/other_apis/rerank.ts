/** POST /v1/rerank: documents in the order of their relevance for a query. */
import { Elysia } from "elysia";
import type { Ctx } from "../../context.ts";
import { area } from "../../http/auth.ts";
import { describe } from "../../http/openapi.ts";
import { Reranking, RerankRequest, type ScoreList } from "../../lib/chat/rerank.ts";
import { recordRefusals } from "../serving/deployments/chat/refusals.ts";
import { callModel } from "./call_model.ts";

export const routes = (ctx: Ctx) => {
  recordRefusals(ctx);
  const { authed, takes } = area(ctx, "inference");
  return new Elysia({ tags: ["Clients"] }).use(authed).post(
    "/v1/rerank",
    async ({ body, ...caller }) => {
      const texts = body.documents.map((each) => (typeof each === "string" ? each : each.text));
      const request = { model: body.model, input: [body.query, ...texts] };
      const { response } = await callModel(ctx, caller, "/rerank", request);
      if (!response.ok) return response;
      const { scores, model, usage } = (await response.json()) as ScoreList;
      const all = scores.map((score, index) => ({
        object: "rerank.result" as const,
        index,
        relevance_score: score,
        ...(body.return_documents ? { document: { text: texts[index] ?? "" } } : {}),
      }));
      const results = all.sort((a, b) => b.relevance_score - a.relevance_score).slice(0, body.top_n ?? undefined);
      return { object: "list", model, results, usage };
    },
    {
      ...takes(RerankRequest, { kind: "chat" }),
      detail: describe(
        "Order documents by their relevance for a query",
        { 200: Reranking },
        {
          description:
            "A reranker scores each pair of query and document. An embedding model compares their embeddings. Other models are refused.",
        },
      ),
    },
  );
};
