/** Completions, embeddings and tokens. */
import { begun, type Case, chunksOf, type Json, ok, refused, said, same, TEXT, USER, VECTORS } from "./kit.ts";

export const TEXTS: Case[] = [
  ["a completion", ok(TEXT, begun, (body) => typeof said(body) === "string")],
  [
    "a completion and its stream",
    async (post) => {
      const whole = await same(post, TEXT, begun, said);
      const parts = chunksOf((await post(TEXT, { ...begun, stream: true })).body);
      return parts.map((each) => each.choices[0].text).join("") === whole;
    },
  ],
  [
    "one seed, greedy",
    async (post) =>
      new Set([
        await same(post, TEXT, { ...begun, seed: 1 }, said),
        await same(post, TEXT, { ...begun, seed: 1 }, said),
      ]).size === 1,
  ],
  [
    "one seed, at random",
    async (post) =>
      new Set([
        await same(post, TEXT, { ...begun, temperature: 1, seed: 7 }, said),
        await same(post, TEXT, { ...begun, temperature: 1, seed: 7 }, said),
      ]).size === 1,
  ],
  [
    "four seeds",
    async (post) => {
      const all = [];
      for (const seed of [0, 1, 2, 3]) all.push(await same(post, TEXT, { ...begun, temperature: 2, seed }, said));
      return new Set(all).size > 1;
    },
  ],
  [
    "tokens, a list, a list of tokens",
    async (post) => {
      for (const prompt of [
        [12, 34, 56],
        ["a", "b"],
        [[12, 34], [56]],
      ])
        if ((await post(TEXT, { ...begun, prompt })).status !== 200) return false;
      return true;
    },
  ],
  ["texts and tokens mixed", ok(TEXT, { ...begun, prompt: ["a", [12, 34]] }, ({ choices }) => choices.length === 2)],
  [
    "logprobs",
    ok(TEXT, { ...begun, logprobs: 3 }, (body) => Object.keys(body.choices[0].logprobs.top_logprobs[0]).length === 3),
  ],
  [
    "n_probs",
    ok(TEXT, { ...begun, n_probs: 10 }, (body) => Object.keys(body.choices[0].logprobs.top_logprobs[0]).length > 5),
  ],
  [
    "max_tokens 0",
    ok(TEXT, { ...begun, max_tokens: 0 }, (body) => said(body) === "" && body.usage.completion_tokens === 0),
  ],
  [
    "max_tokens -1",
    ok(TEXT, { ...begun, max_tokens: -1, grammar: 'root ::= "x"{20}' }, (body) => said(body).length === 20),
  ],
  ["echo", ok(TEXT, { ...begun, echo: true }, (body) => said(body).startsWith("Once upon"))],
  [
    "echo with logprobs of the prompt",
    ok(TEXT, { ...begun, echo: true, logprobs: 1, max_tokens: 0 }, (body) => {
      const { tokens, token_logprobs: scores } = body.choices[0].logprobs;
      return (
        tokens.join("").endsWith("upon") && scores[0] === null && scores.slice(1).every((each: number) => each <= 0)
      );
    }),
  ],
  [
    "best_of",
    ok(
      TEXT,
      { ...begun, temperature: 1, best_of: 2 },
      (body) => body.choices.length === 1 && body.choices[0].logprobs === null,
    ),
  ],
  ["a stop string", ok(TEXT, { ...begun, stop: ["zzz"] })],
  [
    "fields of other samplers are named as ignored",
    async (post) => {
      const { status, headers } = await post(TEXT, {
        ...begun,
        ignore_eos: true,
        top_k: 40,
        min_p: 0.1,
        repeat_penalty: 1.1,
        typical_p: 1,
        mirostat: 0,
      });
      return status === 200 && headers.get("warning")?.includes("/mirostat") === true;
    },
  ],
  [
    "ignore_eos",
    ok(
      TEXT,
      { ...begun, prompt: "12", max_tokens: 40, ignore_eos: true },
      (body) => body.usage.completion_tokens === 40,
    ),
  ],
  [
    "six requests at once",
    async (post) =>
      (await Promise.all(Array.from({ length: 6 }, () => post(TEXT, begun)))).every(({ status }) => status === 200),
  ],
  ["POST /tokenize", ok("/tokenize", { content: "12" }, ({ tokens }) => tokens.length > 0)],
  [
    "POST /detokenize",
    async (post) => {
      const { tokens } = (await post("/tokenize", { content: "a text" })).body;
      return (await post("/detokenize", { tokens })).body.content === "a text";
    },
  ],
  ["POST /apply-template", ok("/apply-template", { messages: USER }, ({ prompt }) => prompt.includes("7 + 5"))],
  [
    "POST /v1/chat/completions/input_tokens",
    ok("/v1/chat/completions/input_tokens", { messages: USER }, (body) => body.input_tokens > 3),
  ],
];

/** For a reranker. */
const ranker = { model: "ranker" };
export const RERANKS: Case[] = [
  [
    "POST /v1/rerank",
    ok(
      "/v1/rerank",
      { ...ranker, query: "a", documents: ["b", { text: "a" }], return_documents: true },
      ({ results }) => {
        const [first, second] = results;
        const ordered = first.relevance_score >= second.relevance_score && first.index + second.index === 1;
        return ordered && first.document.text === ["b", "a"][first.index];
      },
    ),
  ],
  [
    "POST /rerank",
    ok("/rerank", { ...ranker, query: "a", documents: ["b", "a"], top_n: 1 }, ({ results }) => results.length === 1),
  ],
  [
    "POST /v1/reranking",
    ok("/v1/reranking", { ...ranker, query: "a", documents: ["b"] }, ({ usage }) => usage.prompt_tokens > 2),
  ],
  [
    "POST /reranking",
    ok("/reranking", { ...ranker, query: "a", documents: ["b"] }, ({ results }) => results[0].index === 0),
  ],
  ["rerank without documents", refused("/v1/rerank", { ...ranker, query: "a", documents: [] })],
  ["a chat with a reranker", refused("/v1/chat/completions", { ...ranker, messages: USER })],
];

const unit = (vector: number[]) => Math.abs(Math.hypot(...vector) - 1) < 1e-3;
export const EMBEDDINGS: Case[] = [
  ["one vector of length 1", ok(VECTORS, { input: "one" }, ({ data }) => unit(data[0].embedding))],
  [
    "two vectors and usage",
    ok(VECTORS, { input: ["one", "two"] }, ({ data, usage }) => data.length === 2 && usage.prompt_tokens > 0),
  ],
  ...[
    "",
    [12, 34, 56],
    ["s1", "s2"],
    [
      [12, 34, 56],
      [12, 34, 56],
    ],
    ["s1", [12, 34, 56]],
  ].map(
    (input): Case => [
      `input ${JSON.stringify(input)}`,
      ok(VECTORS, { input }, ({ data }) => data.every((each: Json) => unit(each.embedding))),
    ],
  ),
  [
    "base64 equals floats",
    async (post) => {
      const floats = (await post(VECTORS, { input: "one" })).body.data[0].embedding as number[];
      const { embedding } = (await post(VECTORS, { input: "one", encoding_format: "base64" })).body.data[0];
      const bytes = Buffer.from(embedding, "base64");
      return floats.every((value, i) => Math.abs(value - bytes.readFloatLE(4 * i)) < 1e-6);
    },
  ],
  [
    "dimensions",
    ok(
      VECTORS,
      { input: "one", dimensions: 16 },
      ({ data }) => data[0].embedding.length === 16 && unit(data[0].embedding),
    ),
  ],
  [
    "an input beyond the context",
    refused(VECTORS, { input: "word ".repeat(2000) }, ({ code }) => code === "context_length_exceeded"),
  ],
];
