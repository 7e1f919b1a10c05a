/** Custom tools, allowed tools, constraints of vLLM and timings, through the worker's routes over a scripted engine. */
import { expect, test } from "bun:test";
import { ASK, chunks, httpWorker, json } from "./http_kit.ts";

const { engine, lastPrompt, post, scripted } = httpWorker();
const CHAT = "/chat/completions";
const PATCH = { type: "custom", custom: { name: "patch", description: "Edits a file." } };
const LOOK = { type: "function", function: { name: "look", parameters: { type: "object", properties: {} } } };
const call = (name: string, args: object) => `<tool_call>\n${JSON.stringify({ name, arguments: args })}\n</tool_call>`;

test("a call of a custom tool has a text, whole and streamed, beside one of a function", async () => {
  const said = call("patch", { input: 'a "b"\n' }) + call("look", {});
  scripted(...said);
  const { choices } = await json(await post(CHAT, { ...ASK, tools: [PATCH, LOOK] }));
  const id = expect.stringMatching(/^call_/);
  const calls = [
    { id, type: "custom", custom: { name: "patch", input: 'a "b"\n' } },
    { id, type: "function", function: { name: "look", arguments: "{}" } },
  ];
  expect([choices[0].message.tool_calls, choices[0].finish_reason]).toEqual([calls, "tool_calls"]);
  scripted(...said);
  const parts = chunks(await (await post(CHAT, { ...ASK, stream: true, tools: [PATCH, LOOK] })).text());
  const deltas = parts.flatMap(({ choices: [choice] }) => choice?.delta.tool_calls ?? []);
  expect(deltas[0]).toMatchObject({ index: 0, type: "custom", custom: { name: "patch", input: 'a "b"\n' } });
  expect(deltas[1]).toMatchObject({ index: 1, type: "function", function: { name: "look" } });
});

test("a custom tool at the end of a stream is sent before the end", async () => {
  scripted(...call("patch", { input: "x" }));
  const parts = chunks(await (await post(CHAT, { ...ASK, stream: true, tools: [PATCH] })).text());
  const [held, end] = parts.slice(-2).map(({ choices: [choice] }) => choice);
  expect([held?.delta.tool_calls?.length, end?.finish_reason]).toEqual([1, "tool_calls"]);
});

test("the prompt shows a custom tool as a function with one text, and its call of before too", async () => {
  const before = { id: "c", type: "custom", custom: { name: "patch", input: "old" } };
  const format = { type: "grammar", grammar: { syntax: "lark", definition: "start: LINE" } };
  const tools = [{ type: "custom", custom: { name: "patch", format } }];
  const messages = [
    ...ASK.messages,
    { role: "assistant", tool_calls: [before] },
    { role: "tool", tool_call_id: "c", content: "done" },
  ];
  scripted("ok");
  await post(CHAT, { ...ASK, messages, tools });
  expect(lastPrompt()).toContain('"input": "old"');
  expect(lastPrompt()).toContain("start: LINE");
});

test("allowed_tools are the only tools that the prompt shows, and a dropped kind is not shown", async () => {
  const allowed = { mode: "auto", tools: [{ type: "function", function: { name: "look" } }] };
  scripted("ok");
  const tools = [PATCH, LOOK, { type: "web_search" }];
  await post(CHAT, { ...ASK, tools, tool_choice: { type: "allowed_tools", allowed_tools: allowed } });
  expect([lastPrompt().includes("look"), lastPrompt().includes("patch"), lastPrompt().includes("web_search")]).toEqual([
    true,
    false,
    false,
  ]);
  const unknown = { ...allowed, tools: [{ type: "custom", custom: { name: "none" } }] };
  const refused = await post(CHAT, { ...ASK, tools, tool_choice: { type: "allowed_tools", allowed_tools: unknown } });
  expect((await json(refused)).error.param).toBe("/tool_choice/allowed_tools/tools/0");
});

test.each([
  [{ guided_choice: ["yes", 'n"o'] }, 'root ::= "yes" | "n\\"o"'],
  [{ structured_outputs: { choice: ["a"] } }, 'root ::= "a"'],
  [{ guided_regex: "[ac]{2}" }, "[ac]"],
  [{ structured_outputs: { regex: "^x$" } }, "[x]"],
  [{ guided_json: '{"type": "boolean"}' }, "boolean"],
  [{ structured_outputs: { json_object: true } }, '"{"'],
  [{ guided_grammar: 'root ::= "z"' }, 'root ::= "z"'],
])("%j constrains the answer", async (fields, rule) => {
  scripted("ok");
  expect((await post(CHAT, { ...ASK, ...fields })).status).toBe(200);
  expect(engine.requests.at(-1)?.grammar).toContain(rule);
  scripted("ok");
  expect((await post("/completions", { prompt: "p", ...fields })).status).toBe(200);
  expect(engine.requests.at(-1)?.grammar).toContain(rule);
});

test.each([
  [{ guided_json: "no schema" }, "/guided_json"],
  [{ guided_choice: ["a"], grammar: 'root ::= "a"' }, "/grammar"],
  [{ guided_choice: ["a"], response_format: { type: "json_object" } }, "/guided_choice"],
  [{ structured_outputs: { structural_tag: {} } }, "/structured_outputs/structural_tag"],
  [{ guided_regex: "(?=a)" }, "/guided_regex"],
  [{ output_format: { type: "json_schema" } }, "/output_format"],
  [{ logit_bias: { hello: 1 } }, "/logit_bias/hello"],
])("%j is refused", async (fields, param) => {
  const answer = await post(CHAT, { ...ASK, ...fields });
  expect([answer.status, (await json(answer)).error.param]).toEqual([422, param]);
});

test("timings are in every part but the first, also in the one with the usage", async () => {
  scripted("a", "b");
  const stream = { stream: true, stream_options: { include_usage: true }, timings_per_token: true };
  const parts = chunks(await (await post(CHAT, { ...ASK, ...stream })).text());
  expect(parts.map(({ timings }) => timings !== undefined)).toEqual([false, ...parts.slice(1).map(() => true)]);
  expect(parts.at(-1)?.usage?.completion_tokens_details).toEqual({
    reasoning_tokens: 0,
    audio_tokens: 0,
    accepted_prediction_tokens: 0,
    rejected_prediction_tokens: 0,
  });
});

test("cache_prompt: false reads the whole prompt", async () => {
  scripted("ok");
  await post(CHAT, { ...ASK, cache_prompt: false });
  expect(engine.requests.at(-1)?.fresh).toBe(true);
});
