/** POST /rerank: the relevance of documents for a query. */
import type { ScoreList, ScoreRequest } from "../../../lib/chat/rerank.ts";
import { AppError } from "../../../lib/errors.ts";
import type { Engine } from "../engine/types.ts";
import { promptTokens, refuseHopeless } from "../prompt.ts";
import { countPrompt, type Exchange, type Served } from "../request.ts";
import { tooLong } from "./embeddings.ts";

export async function rerank(served: Served, request: ScoreRequest, exchange: Exchange): Promise<Response> {
  const { engine, adapter } = served;
  const { isEncoder, hasPooling, pooling, contextLength } = engine.facts;
  if (!isEncoder && !hasPooling)
    throw new AppError(
      "schema",
      "model: this model generates text and cannot rank. Deploy a reranker or an embedding model, and name it",
      { param: "/model" },
    );
  const prompts = pooling === "rank" ? pairsOf(served, request.input) : textsOf(engine, request.input);
  const first = prompts.length === request.input.length ? 0 : 1; // a pair belongs to its document
  for (const [i, { length }] of prompts.entries())
    if (length > contextLength) throw tooLong(length, contextLength, placeOf(i + first));
  const { tally, signal } = exchange;
  countPrompt(
    prompts.reduce((sum, prompt) => sum + prompt.length, 0),
    tally,
  );
  const vectors = await engine.embed(prompts, signal, adapter);
  const answer: ScoreList = {
    model: request.model ?? "",
    scores: pooling === "rank" ? vectors.map(([score = 0]) => score) : cosines(vectors),
    usage: { prompt_tokens: tally.promptTokens, total_tokens: tally.promptTokens },
  };
  return Response.json(answer);
}

/** The field of an input: the query, then the documents. */
const placeOf = (i: number) => (i === 0 ? "/query" : `/documents/${i - 1}`);

const textsOf = (engine: Engine, input: readonly string[]) =>
  input.map((text, i) => promptTokens(engine, text, placeOf(i), true));

/** One prompt for each document. Names of control tokens in a text are text. */
function pairsOf({ engine, newQuotes }: Served, [query = "", ...documents]: readonly string[]): Int32Array[] {
  const { pairs, contextLength } = engine.facts;
  const { template, bos, eos, sep } = pairs;
  for (const [i, text] of [query, ...documents].entries()) refuseHopeless(text.length, contextLength, placeOf(i));
  if (template !== null)
    return documents.map((document) => {
      const { quote, tokenize } = newQuotes();
      const texts: Record<string, string> = { query: quote(query), document: quote(document) };
      return tokenize(template.replaceAll(/\{(query|document)\}/g, (_, name: string) => texts[name] ?? ""));
    });
  const plain = (text: string) => engine.tokenize(text, { addBos: false, special: false });
  const first = plain(query);
  return documents.map((document) =>
    Int32Array.from([bos, ...first, eos, sep, ...plain(document), eos].filter((token) => token >= 0)),
  );
}

/** Vectors have length 1. */
function cosines([query, ...documents]: readonly Float32Array[]): number[] {
  return documents.map((vector) => vector.reduce((sum, value, i) => sum + value * (query?.[i] ?? 0), 0));
}
