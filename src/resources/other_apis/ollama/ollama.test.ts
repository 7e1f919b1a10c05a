import { afterAll, beforeAll, expect, test } from "bun:test";
import { type TestApp, testApp } from "../../../../test/harness.ts";
import { pretendServing } from "../../../../test/pretend_replica.ts";
import { sizeText } from "./listed.ts";
import { createChatTranslator } from "./stream.ts";
import { toMessages } from "./translate.ts";

// biome-ignore lint/suspicious/noExplicitAny: a test reads whatever was answered
type Json = any;
let app: TestApp;
beforeAll(async () => {
  app = testApp();
  const { body } = await app.call("POST", "/v1/deployments", { model: "owner/x", name: "d" });
  pretendServing(app, body.id, { parallel: 4 });
});
afterAll(() => app.close().then(app.remove));

const MESSAGES = [{ role: "user", content: "hi" }];
const post = (path: string, json: object) => app.call("POST", `/api/${path}`, json);

test("a chat, a text and embeddings have the fields of Ollama", async () => {
  const end = { model: "d", done: true, done_reason: "stop", prompt_eval_count: 1, eval_count: 1 };
  expect((await post("chat", { model: "d:latest", messages: MESSAGES, stream: false })).body).toMatchObject({
    ...end,
    message: { role: "assistant", content: "hello" },
  });
  const text = { model: "d", prompt: "hi", stream: false };
  expect((await post("generate", text)).body).toMatchObject({ ...end, response: "hello" });
  expect((await post("generate", { ...text, raw: true })).body).toMatchObject({ ...end, response: "hello" });
  expect((await post("embed", { model: "d", input: ["hi"] })).body.embeddings).toEqual([[1, 0]]);
  expect((await post("embeddings", { model: "d", prompt: "hi" })).body).toEqual({ embedding: [1, 0] });
});

test("a request without a prompt loads the model, or says that the caller no longer needs it", async () => {
  expect((await post("generate", { model: "d", stream: false })).body).toMatchObject({ done_reason: "load" });
  for (const keep_alive of [0, "0", "0s"])
    expect((await post("chat", { model: "d", stream: false, keep_alive })).body).toMatchObject({
      done_reason: "unload",
    });
  const kept = await post("generate", { model: "d", stream: false, keep_alive: "5m" });
  expect(kept.body).toMatchObject({ done_reason: "load" });
});

test("the context of an answer goes on with the next prompt", async () => {
  const text = { model: "d", prompt: "hi", stream: false };
  const { context } = (await post("generate", text)).body;
  expect(context).toEqual([1, 1]); // the prompt, the answer
  expect((await post("generate", { ...text, context })).body.context).toEqual([1, 1, 1, 1]);
  expect((await post("generate", { ...text, raw: true })).body.context).toBeUndefined();
});

test("bodies are read under any content type, as curl sends them", async () => {
  const raw = JSON.stringify({ model: "d", messages: MESSAGES, stream: false });
  const headers = { "content-type": "application/x-www-form-urlencoded" };
  const { status, body } = await app.call("POST", "/api/chat", undefined, { raw, headers });
  expect([status, body.message.content]).toEqual([200, "hello"]);
});

test("the root says that a server runs, and browsers get the dashboard", async () => {
  const plain = await app.call("GET", "/", undefined, { key: null });
  expect([plain.status, plain.body]).toEqual([200, "Ollama is running"]);
  expect((await app.call("HEAD", "/", undefined, { key: null })).status).toBe(200);
  const page = await app.call("GET", "/", undefined, { key: null, headers: { accept: "text/html" } });
  expect(page.headers.get("content-type")).toContain("text/html");
});

test("log-probabilities have the fields of Ollama", async () => {
  const translator = createChatTranslator("chat", () => "now");
  const scored = { token: "a", logprob: -0.5, bytes: [97] };
  const content = [{ ...scored, top_logprobs: [scored] }];
  const choice = { index: 0, delta: { content: "a" }, logprobs: { content, refusal: null }, finish_reason: null };
  const line = JSON.parse(translator.chunk({ model: "d", choices: [choice] } as never));
  expect(line.logprobs).toEqual([{ ...scored, top_logprobs: [scored] }]);
});

test("options without effect are named, and images are refused by a model without a projector", async () => {
  const { headers } = await post("chat", { model: "d", messages: MESSAGES, stream: false, options: { num_ctx: 1 } });
  expect(headers.get("warning")).toContain("/options/num_ctx");
  const messages = [{ role: "user", content: "hi", images: ["AAAA"] }];
  const refused = await post("chat", { model: "d", messages });
  expect(refused.status).toBe(400);
  expect(refused.body.error).toContain("messages.0.content.0.image_url.url: this model reads no images");
  const raw = await post("generate", { model: "d", prompt: "hi", raw: true, images: ["AAAA"] });
  expect([raw.status, raw.body.error]).toEqual([
    400,
    "images: cannot be combined with raw, suffix or context. Remove one of them",
  ]);
});

test("an unknown model is 404 with a text, and detection keeps its own routes", async () => {
  const { status, body } = await post("chat", { model: "none", messages: MESSAGES });
  expect([status, typeof body.error]).toEqual([404, "string"]);
  expect((await app.call("GET", "/api/detect/none")).body.code).toBe("NOT_FOUND");
});

test("a model with a prompt is an agent, a copy is a deployment, and both can be deleted", async () => {
  const made = { model: "poet", from: "d", system: "Rhyme.", parameters: { temperature: 0.5 }, stream: false };
  expect((await post("create", made)).body).toEqual({ status: "success" });
  expect((await app.call("GET", "/v1/agents/poet")).body).toMatchObject({
    deployment: "d",
    system_prompt: "Rhyme.",
    sampling: { temperature: 0.5 },
  });
  expect((await post("copy", { source: "d", destination: "e:latest" })).status).toBe(200);
  expect((await post("pull", { model: "e", stream: false })).body).toEqual({ status: "success" });
  expect((await post("pull", { name: "e", stream: false })).body).toEqual({ status: "success" }); // as its client sends it
  for (const name of [{ model: "poet" }, { name: "e" }])
    expect((await app.call("DELETE", "/api/delete", name)).status).toBe(200);
  expect((await app.call("DELETE", "/api/delete", {})).body.error).toBe("model: is required: send a text");
  expect((await post("show", { model: "poet" })).status).toBe(404);
});

test("a result of a tool answers the open call of its function", () => {
  const call = (name: string) => ({ function: { name, arguments: {} } });
  const messages = toMessages([
    { role: "assistant", content: "", tool_calls: [call("a"), call("b")] },
    { role: "tool", content: "2", tool_name: "b" },
    { role: "tool", content: "1" },
  ]);
  expect((messages as Json[]).map((each) => each.tool_call_id)).toEqual([undefined, "call_1", "call_0"]);
});

test("a stream has one object a line, and its calls come whole at the end", async () => {
  const translator = createChatTranslator("chat", () => "now");
  const delta = (fields: object, finish_reason: string | null = null) =>
    translator.chunk({ model: "d", choices: [{ index: 0, delta: fields, finish_reason }] } as never);
  const text = [
    delta({ content: "a" }),
    delta({ reasoning_content: "hm" }),
    delta({ tool_calls: [{ index: 0, id: "c", function: { name: "f", arguments: '{"x":' } }] }),
    delta({ tool_calls: [{ index: 0, function: { arguments: "1}" } }] }, "tool_calls"),
    await translator.end(),
  ].join("");
  const lines = text
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
  expect(lines).toMatchObject([
    { message: { content: "a" }, done: false },
    { message: { thinking: "hm" }, done: false },
    { message: { tool_calls: [{ function: { name: "f", arguments: { x: 1 } } }] }, done: false },
    { done: true, done_reason: "stop" },
  ]);
});

test.each([
  [1_235_814_400, "1.2B"],
  [15_191_712, "15.2M"],
  [null, ""],
])("%p parameters are %p", (parameters, text) => expect(sizeText(parameters)).toBe(text));
