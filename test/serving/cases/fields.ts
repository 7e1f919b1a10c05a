/** Tools and the further fields of a chat request. */
import { type Case, CHAT, chunksOf, content, type Json, ok, question, refused, USER } from "./kit.ts";

const TOOL = {
  type: "function",
  function: {
    name: "test",
    parameters: { type: "object", properties: { city: { enum: ["Oslo"] } }, required: ["city"] },
  },
};
const PYTHON = {
  type: "function",
  function: {
    name: "python",
    parameters: { type: "object", properties: { code: { type: "string", maxLength: 8 } }, required: ["code"] },
  },
};
const calls = (tool: typeof TOOL | typeof PYTHON, pieces: Json[]) =>
  JSON.parse(pieces.join("")) !== null && tool.function.name.length > 0;

export const FIELDS: Case[] = [
  ["role developer", ok(CHAT, { ...question, messages: [{ role: "developer", content: "Be brief." }, ...USER] })],
  [
    "an image is refused",
    refused(
      CHAT,
      { ...question, messages: [{ role: "user", content: [{ type: "image_url", image_url: { url: "data:," } }] }] },
      ({ message, param }) => param === "/messages/0/content/0/image_url/url" && message.includes("reads no images"),
    ),
  ],
  ...(
    [
      [TOOL, false],
      [TOOL, true],
      [PYTHON, false],
      [PYTHON, true],
    ] as const
  ).map(
    ([tool, streams]): Case => [
      `a required call of ${tool.function.name}${streams ? " in a stream" : ""}`,
      async (post) => {
        const wanted = { ...question, max_tokens: 96, tools: [tool], tool_choice: "required", stream: streams };
        const { status, body } = await post(CHAT, wanted);
        if (status !== 200) return false;
        if (!streams) return calls(tool, [body.choices[0].message.tool_calls[0].function.arguments]);
        const deltas = chunksOf(body).flatMap((each) => each.choices[0].delta.tool_calls ?? []);
        const pieces = deltas.map((each) => each.function.arguments);
        return deltas[0].function.name === tool.function.name && pieces.length > 1 && calls(tool, pieces);
      },
    ],
  ),
  ["tools: [] and no choice", ok(CHAT, { ...question, tools: [] }, (body) => !body.choices[0].message.tool_calls)],
  ["a tool that is not called", ok(CHAT, { ...question, tools: [TOOL] })],
  [
    "tool_choice none",
    ok(CHAT, { ...question, tools: [TOOL], tool_choice: "none" }, (body) => !body.choices[0].message.tool_calls),
  ],
  [
    "a call and its result",
    ok(CHAT, {
      ...question,
      messages: [
        ...USER,
        { role: "assistant", tool_calls: [{ id: "c", type: "function", function: { name: "test", arguments: "{}" } }] },
        { role: "tool", tool_call_id: "c", content: "12" },
      ],
    }),
  ],
  ...(
    [
      ["reasoning_effort", "low"],
      ["max_completion_tokens", 4],
      ["metadata", { a: "b" }],
      ["functions", [TOOL.function]],
      ["store", true],
      ["user", "u"],
    ] as const
  ).map(([name, value]): Case => [`the field ${name} acts`, ok(CHAT, { ...question, [name]: value })]),
  ...(
    [
      ["service_tier", "auto"],
      ["prediction", { type: "content", content: "1" }],
      ["modalities", ["text"]],
      ["prompt_cache_key", "k"],
      ["verbosity", "low"],
      ["web_search_options", {}],
      ["safety_identifier", "s"],
      ["audio", { voice: "alloy", format: "mp3" }],
      ["prompt_cache_retention", "24h"],
      ["best_of", 2],
      ["suffix", "x"],
      ["min_tokens", 2],
      ["repeat_penalty", 1.1],
      ["mirostat", 2],
      ["samplers", ["top_k"]],
      ["dry_multiplier", 0.5],
      ["id_slot", 1],
      ["enable_thinking", false],
    ] as const
  ).map(
    ([name, value]): Case => [
      `the field ${name} is named as ignored`,
      async (post) => {
        const { status, headers } = await post(CHAT, { ...question, [name]: value });
        return status === 200 && headers.get("warning")?.includes(`/${name}`) === true;
      },
    ],
  ),
  ...(
    [
      ["/messages/0/cache_control", { messages: [{ ...USER[0], cache_control: { type: "ephemeral" } }] }],
      [
        "/messages/0/content/0/cache",
        { messages: [{ role: "user", content: [{ type: "text", text: "a", cache: 1 }] }] },
      ],
      ["/messages/0/tool_calls", { messages: [{ ...USER[0], tool_calls: [] }] }],
      ["/tools/0/cache_control", { tools: [{ ...TOOL, cache_control: {} }] }],
      ["/stream_options/include_obfuscation", { stream: true, stream_options: { include_obfuscation: false } }],
      ["/response_format/schema", { response_format: { type: "text", schema: {} } }],
    ] as const
  ).map(
    ([field, more]): Case => [
      `the nested field ${field} is named as ignored`,
      async (post) => {
        const { status, headers } = await post(CHAT, { ...question, ...more });
        return status === 200 && headers.get("warning") === `299 verk "ignored: unknown field ${field}"`;
      },
    ],
  ),
  [
    "an answer that is sent back with all its fields causes no warning",
    async (post) => {
      const { body } = await post(CHAT, question);
      const { headers } = await post(CHAT, { ...question, messages: [...USER, body.choices[0].message, ...USER] });
      return headers.get("warning") === null;
    },
  ],
  [
    "a format that does not exist is refused with those that do",
    refused(
      CHAT,
      { ...question, response_format: { type: "grammar" } },
      ({ message }) => message === 'response_format.type: must be one of "text", "json_object", "json_schema"',
    ),
  ],
  [
    "max_tokens 0",
    ok(
      CHAT,
      { ...question, max_tokens: 0 },
      (body) => content(body) === "" && body.choices[0].finish_reason === "length",
    ),
  ],
  ["max_tokens -1", ok(CHAT, { ...question, max_tokens: -1 }, (body) => content(body) === "12")],
  ["temperature -1", refused(CHAT, { ...question, temperature: -1 })],
  ["temperature 2", ok(CHAT, { ...question, temperature: 2 })],
  ["top_p 0", ok(CHAT, { ...question, top_p: 0 })],
  ["top_p 1.5", refused(CHAT, { ...question, top_p: 1.5 })],
  ["n 0", refused(CHAT, { ...question, n: 0 })],
  ["n 129", refused(CHAT, { ...question, n: 129 })],
  ["four stop strings", ok(CHAT, { ...question, stop: ["a", "b", "c", "d"] })],
  ["one stop string", ok(CHAT, { ...question, stop: "2" }, (body) => content(body) === "1")],
  ["stop null", ok(CHAT, { ...question, stop: null })],
  ["seed -1", ok(CHAT, { ...question, seed: -1 })],
  ["seed 2^53", ok(CHAT, { ...question, seed: 2 ** 53 })],
  ["stream_options without stream", refused(CHAT, { ...question, stream_options: { include_usage: true } })],
];
