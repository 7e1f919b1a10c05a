/** POST /embeddings. */
import type { EmbeddingList, EmbeddingRequest } from "../../lib/chat/embedding.ts";
import { AppError } from "../../lib/errors.ts";
import { promptTokens } from "./prompt.ts";
import { countPrompt, type Exchange, type Served } from "./request.ts";

export async function embed(served: Served, request: EmbeddingRequest, exchange: Exchange): Promise<Response> {
  const { engine, adapter } = served;
  const { embeddingSize, contextLength } = engine.facts;
  const { input, dimensions } = request;
  if (typeof dimensions === "number" && dimensions !== embeddingSize)
    throw new AppError(
      "schema",
      `dimensions: this model's embeddings have ${embeddingSize} dimensions and cannot be shortened. Remove the field`,
      {
        param: "/dimensions",
      },
    );
  const many = Array.isArray(input) && typeof input[0] !== "number";
  const inputs = many ? (input as (string | number[])[]) : [input as string | number[]];
  const prompts = inputs.map((text, i) => promptTokens(engine, text, many ? `/input/${i}` : "/input"));
  for (const [i, prompt] of prompts.entries())
    if (prompt.length > contextLength)
      throw new AppError(
        "context_length_exceeded",
        `The input has ${prompt.length} tokens, but the context holds ${contextLength}. Shorten the input, or deploy with a larger context_length`,
        { param: many ? `/input/${i}` : "/input" },
      );
  const { tally, signal } = exchange;
  countPrompt(
    prompts.reduce((sum, prompt) => sum + prompt.length, 0),
    tally,
  );
  const vectors = await engine.embed(prompts, signal, adapter);
  const answer: EmbeddingList = {
    object: "list",
    data: vectors.map((vector, index) => ({
      object: "embedding",
      index,
      embedding: request.encoding_format === "base64" ? base64(vector) : [...vector],
    })),
    model: request.model ?? "",
    usage: { prompt_tokens: tally.promptTokens, total_tokens: tally.promptTokens },
  };
  return Response.json(answer);
}

const base64 = (vector: Float32Array) =>
  Buffer.from(vector.buffer, vector.byteOffset, vector.byteLength).toString("base64");
