/** Messages, streams and formats of /chat/completions. */
import { type Case, CHAT, chunksOf, content, json, ok, question, refused, stream, streamed, USER } from "./kit.ts";

export const CHATS: Case[] = [
  ["a text as content", ok(CHAT, question, (body) => content(body) === "12")],
  [
    "parts as content",
    ok(
      CHAT,
      { ...question, messages: [{ role: "user", content: [{ type: "text", text: "What is 7 + 5?" }] }] },
      (body) => content(body) === "12",
    ),
  ],
  ["system_fingerprint", ok(CHAT, question, (body) => "system_fingerprint" in body)],
  ["timings", ok(CHAT, question, ({ timings }) => timings.predicted_n > 0 && timings.prompt_ms >= 0)],
  [
    "a repeated prompt is in the cache",
    async (post) => {
      const once = () =>
        post(CHAT, { ...question, messages: [{ role: "user", content: "Say something that is long enough." }] });
      await once();
      return (await once()).body.usage.prompt_tokens_details.cached_tokens > 0;
    },
  ],
  [
    "a stream: ids, role, finish",
    stream(
      CHAT,
      question,
      (all) =>
        new Set(all.map(({ id }) => id)).size === 1 &&
        all[0].choices[0].delta.role === "assistant" &&
        all.at(-1).choices[0].finish_reason === "stop",
    ),
  ],
  [
    "include_usage",
    stream(
      CHAT,
      { ...question, stream_options: { include_usage: true } },
      (all) => all.at(-1).usage.completion_tokens > 0,
    ),
  ],
  ["no usage unless it is question for", stream(CHAT, question, (all) => all.every((each) => !each.usage))],
  [
    "a stream has the text of the whole answer",
    async (post) => streamed(chunksOf((await post(CHAT, { ...question, stream: true })).body)) === "12",
  ],
  [
    "without /v1, the first part of a stream has the content null",
    stream("/chat/completions", question, ([{ choices }, second]) => {
      const { role, content: opening } = choices[0].delta;
      return role === "assistant" && opening === null && second.choices[0].delta.content !== "";
    }),
  ],
  [
    'with /v1, the first part of a stream has the content "", as OpenAI sends it',
    stream(CHAT, question, ([{ choices }]) => choices[0].delta.content === ""),
  ],
  [
    "timings_per_token",
    stream(
      CHAT,
      { ...question, timings_per_token: true, stream_options: { include_usage: true } },
      ([first, ...all]) => !first.timings && all.every((each) => each.timings) && all.at(-1).usage,
    ),
  ],
  [
    "return_progress",
    stream(CHAT, { ...question, return_progress: true }, (all) => {
      const [first, second] = all.flatMap((each) => each.prompt_progress ?? []);
      return first.processed === first.cache && second.processed === second.total;
    }),
  ],
  [
    "the last message of the assistant is continued",
    ok(
      CHAT,
      { ...question, messages: [...USER, { role: "assistant", content: "1" }] },
      (body) => content(body) === "2",
    ),
  ],
  [
    "continue and generate at once",
    refused(CHAT, {
      ...question,
      messages: [...USER, { role: "assistant", content: "1" }],
      continue_final_message: true,
      add_generation_prompt: true,
    }),
  ],
  [
    "json_object with a schema: const",
    ok(CHAT, json({ type: "json_object", schema: { const: "42" } }), (body) => content(body) === '"42"'),
  ],
  [
    "json_object with a schema: items",
    ok(
      CHAT,
      json({
        type: "json_object",
        schema: { type: "array", prefixItems: [{ type: "integer", minimum: 1, maximum: 3 }], minItems: 1, maxItems: 1 },
      }),
      (body) => JSON.parse(content(body))[0] > 0,
    ),
  ],
  [
    "json_schema without a name",
    ok(
      CHAT,
      json({ type: "json_schema", json_schema: { schema: { const: "foooooo" } } }),
      (body) => content(body) === '"foooooo"',
    ),
  ],
  [
    "json_schema with a name",
    ok(
      CHAT,
      json({ type: "json_schema", json_schema: { name: "x", schema: { const: "foo" } } }),
      (body) => content(body) === '"foo"',
    ),
  ],
  ["json_object", ok(CHAT, json({ type: "json_object" }), (body) => content(body).startsWith("{"))],
  [
    "an unknown response_format",
    refused(CHAT, json({ type: "sound" }), ({ param }) => param === "/response_format/type"),
  ],
  ["a schema that is a number", refused(CHAT, json({ type: "json_object", schema: 123 }))],
  ["a schema whose type is a number", refused(CHAT, json({ type: "json_object", schema: { type: 123 } }))],
  ["a schema of an unknown type", refused(CHAT, json({ type: "json_object", schema: { type: "hiccup" } }))],
  [
    "json_schema at the top",
    ok(CHAT, { ...question, json_schema: { const: "42" } }, (body) => content(body) === '"42"'),
  ],
  [
    "a grammar in GBNF",
    ok(CHAT, { ...question, grammar: 'root ::= "a" [bc]{3}' }, (body) => /^a[bc]{3}$/.test(content(body))),
  ],
  [
    "a grammar that does not parse",
    refused(CHAT, { ...question, grammar: "root ::= {" }, ({ param }) => param === "/grammar"),
  ],
  ...[
    null,
    "string",
    [123],
    [{}],
    [{ role: 123 }],
    [{ role: "system", content: 123 }],
    [{ role: "system", content: "test" }, {}],
  ].map((messages): Case => [`messages ${JSON.stringify(messages)}`, refused(CHAT, { ...question, messages })]),
  [
    "two messages of the assistant at the end",
    refused(CHAT, {
      ...question,
      messages: [...USER, { role: "assistant", content: "1" }, { role: "assistant", content: "2" }],
    }),
  ],
  ["a bad request is 400", refused(CHAT, { model: "tiny", messages: "x" }, ({ code }) => code === "invalid_value")],
  [
    "logprobs",
    ok(
      CHAT,
      { ...question, logprobs: true, top_logprobs: 3 },
      (body) => body.choices[0].logprobs.content[0].top_logprobs.length === 3,
    ),
  ],
  [
    "logprobs in a stream",
    stream(CHAT, { ...question, logprobs: true, top_logprobs: 3 }, (all) =>
      all.some((each) => each.choices[0].logprobs?.content.length),
    ),
  ],
  [
    "logit_bias forbids a token",
    async (post) => {
      const { tokens } = (await post("/tokenize", { content: "12" })).body;
      const bias = Object.fromEntries(tokens.map((each: number) => [each, -100]));
      return content((await post(CHAT, { ...question, logit_bias: bias })).body) !== "12";
    },
  ],
  [
    "a prompt beyond the context",
    refused(
      CHAT,
      { ...question, messages: [{ role: "user", content: "word ".repeat(2000) }] },
      ({ code }) => code === "context_length_exceeded",
    ),
  ],
  [
    "a prompt beyond the context: its size",
    refused(
      CHAT,
      { ...question, messages: [{ role: "user", content: "word ".repeat(2000) }] },
      ({ n_prompt_tokens, n_ctx }) => n_ctx === 512 && n_prompt_tokens > 512,
    ),
  ],
  [
    "a prompt beyond the context, in a stream",
    refused(CHAT, { ...question, stream: true, messages: [{ role: "user", content: "word ".repeat(2000) }] }),
  ],
  ["n = 2", ok(CHAT, { ...question, n: 2 }, ({ choices }) => choices.length === 2)],
  [
    "n = 2 in a stream",
    stream(CHAT, { ...question, n: 2 }, (all) => new Set(all.map((each) => each.choices[0].index)).size === 2),
  ],
  ["verbose", ok(CHAT, { ...question, verbose: true }, (body) => body.__verbose.prompt.includes("7 + 5"))],
];
