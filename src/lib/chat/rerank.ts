/** POST /v1/rerank, and the worker's part of it. */
import { z } from "zod";
import { later } from "../schema.ts";

const MAX_DOCUMENTS = 1_000;
const Document = z.union([z.string(), z.object({ text: z.string() })]);
const usage = () => z.object({ prompt_tokens: z.int(), total_tokens: z.int() });

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
            relevance_score: z
              .number()
              .describe("The score of a reranker, of any size; or the cosine of two embeddings, -1 to 1"),
            document: z.object({ text: z.string() }).optional(),
          }),
        )
        .describe("The most relevant document first"),
      usage: usage(),
    })
    .meta({ id: "Reranking" }),
);

/** Between the server and a worker. `input`: the query, then the documents. */
export const ScoreRequest = z.object({ model: z.string().optional(), input: z.array(z.string()).min(2) });
export type ScoreRequest = z.infer<typeof ScoreRequest>;
/** `scores`: one for each document, in order. */
export type ScoreList = { model: string; scores: number[]; usage: { prompt_tokens: number; total_tokens: number } };
