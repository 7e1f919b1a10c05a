/** POST /embeddings. */
import type { EmbeddingList, EmbeddingRequest } from "../../../lib/chat/embedding.ts";
import { AppError } from "../../../lib/errors.ts";
import { promptTokens } from "../prompt.ts";
import { countPrompt, type Exchange, type Served } from "../request.ts";

export async function embed(served: Served, request: EmbeddingRequest, exchange: Exchange): Promise<Response> {
  const { engine, adapter } = served;
  const { embeddingSize, contextLength, pooling } = engine.facts;
  if (pooling === "rank")
    throw new AppError(
      "schema",
      "model: this model scores pairs of texts and computes no embeddings. Send the texts to /v1/rerank",
      { param: "/model" },
    );
  const { input, dimensions } = request;
  if (typeof dimensions === "number" && dimensions > embeddingSize)
    throw new AppError(
      "schema",
      `dimensions: this model's embeddings have ${embeddingSize} dimensions. Set at most that`,
      { param: "/dimensions" },
    );
  const many = Array.isArray(input) && typeof input[0] !== "number";
  const inputs = many ? (input as (string | number[])[]) : [input as string | number[]];
  const prompts = inputs.map((text, i) => embeddedTokens(engine, text, many ? `/input/${i}` : "/input"));
  for (const [i, prompt] of prompts.entries())
    if (prompt.length > contextLength) throw tooLong(prompt.length, contextLength, many ? `/input/${i}` : "/input");
  const { tally, signal } = exchange;
  countPrompt(
    prompts.reduce((sum, prompt) => sum + prompt.length, 0),
    tally,
  );
  const whole = await engine.embed(prompts, signal, adapter);
  const vectors =
    typeof dimensions === "number" && dimensions < embeddingSize
      ? whole.map((vector) => shortened(vector, dimensions))
      : whole;
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

export const tooLong = (tokens: number, contextLength: number, param: string) =>
  new AppError(
    "context_length_exceeded",
    `The input has ${tokens} tokens, but the context holds ${contextLength}. Shorten the input, or deploy with a larger context_length`,
    { param },
  );

/** An empty text is the token that begins or ends every text. */
function embeddedTokens(engine: Served["engine"], text: string | number[], at: string): Int32Array {
  const { bosToken, eosToken } = engine.facts;
  return promptTokens(engine, text === "" ? bosToken || eosToken : text, at, true);
}

/** The first numbers of a vector, of length 1 again. */
function shortened(vector: Float32Array, size: number): Float32Array {
  const first = vector.slice(0, size);
  const length = Math.hypot(...first);
  return length === 0 ? first : first.map((value) => value / length);
}

const base64 = (vector: Float32Array) =>
  Buffer.from(vector.buffer, vector.byteOffset, vector.byteLength).toString("base64");
