import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type TestApp, testApp } from "../../../../test/harness.ts";
import { chatAnswer, pretendServing } from "../../../../test/pretend_replica.ts";
import { toJsonSchema } from "./json_schema.ts";
import { createGoogleTranslator } from "./stream.ts";

// biome-ignore lint/suspicious/noExplicitAny: a test reads whatever was answered
type Json = any;
let app: TestApp;
let sent: Json[] = [];
const answer: (path: string) => object | undefined = () => undefined;
beforeAll(async () => {
  app = testApp();
  const { body } = await app.call("POST", "/v1/deployments", { model: "owner/x", name: "d" });
  const canned: Record<string, object> = {
    "/embeddings": { data: [{ embedding: [1, 0] }, { embedding: [0, 1] }] },
    "/apply-template": { input_tokens: 7 },
  };
  const record = (path: string, request: Json) => {
    sent.push(request);
    return answer(path) ?? canned[path] ?? chatAnswer("hello");
  };
  pretendServing(app, body.id, { parallel: 8, answer: record });
});
afterAll(() => app.close().then(app.remove));

const USER = { role: "user", parts: [{ text: "hi" }] };
const post = (call: string, json: object, headers?: Record<string, string>) =>
  app.call("POST", `/v1beta/models/d/${call}`, json, headers ? { headers, key: null } : {});
const ask = (fields: object) => post("generateContent", { contents: [USER], ...fields });
/** The chat request that the model gets. */
async function chatOf(fields: object): Promise<Json> {
  sent = [];
  const { status, body } = await ask(fields);
  if (status !== 200) throw new Error(body.error.message);
  return sent[0];
}

test("content is generated, counted and embedded, with the key of Google's clients", async () => {
  const { status, body } = await post("generateContent", { contents: [USER] }, { "x-goog-api-key": app.keyA });
  expect(status).toBe(200);
  expect(body).toMatchObject({
    candidates: [{ content: { role: "model", parts: [{ text: "hello" }] }, finishReason: "STOP", index: 0 }],
    usageMetadata: { promptTokenCount: 1, candidatesTokenCount: 1, totalTokenCount: 2, cachedContentTokenCount: 0 },
  });
  expect((await post("countTokens", { contents: [USER] })).body).toEqual({ totalTokens: 7 });
  expect((await post("countTokens", { generateContentRequest: { contents: [USER] } })).body.totalTokens).toBe(7);
  expect((await post("embedContent", { content: USER })).body).toEqual({ embedding: { values: [1, 0] } });
  const requests = [{ content: USER }, { content: { parts: [{ text: "a" }, { text: "b" }] } }];
  sent = [];
  const { embeddings } = (await post("batchEmbedContents", { requests })).body;
  expect([embeddings, sent[0].input]).toEqual([
    [{ values: [1, 0] }, { values: [0, 1] }],
    ["hi", "ab"],
  ]);
});

test("the call may stand behind the model with a colon, as Google writes it", async () => {
  const ask = async (path: string) => {
    const headers = { authorization: `Bearer ${app.keyA}`, "content-type": "application/json" };
    const body = JSON.stringify({ contents: [USER] });
    return (await app.handle(new Request(`http://x/v1beta/models/${path}`, { method: "POST", headers, body }))).status;
  };
  expect([await ask("d:generateContent"), await ask("d:other:generateContent"), await ask("d:generate")]).toEqual([
    200, 404, 405,
  ]);
});

test("models are listed page by page, and shown", async () => {
  const { models, nextPageToken } = (await app.call("GET", "/v1beta/models")).body;
  expect([models, nextPageToken]).toMatchObject([[{ name: "models/d", displayName: "d" }], undefined]);
  expect((await app.call("GET", "/v1beta/models/d")).body).toEqual(models[0]);
  const missing = await app.call("GET", "/v1beta/models/none");
  expect(missing.body.error).toMatchObject({ code: 404, status: "NOT_FOUND" });
});

test("a history with calls, results, thoughts and several contents of the model is one of chat messages", async () => {
  const contents = [
    USER,
    { role: "model", parts: [{ text: "hm", thought: true }, { text: "I " }] },
    { role: "model", parts: [{ text: "look." }, { functionCall: { name: "look", args: { at: 1 } } }] },
    { role: "user", parts: [{ functionResponse: { name: "look", response: { output: "rain" } } }] },
  ];
  const { messages } = await chatOf({ contents, systemInstruction: { parts: [{ text: "Be brief." }] } });
  const call = { id: "call_0", type: "function", function: { name: "look", arguments: '{"at":1}' } };
  expect(messages).toEqual([
    { role: "system", content: "Be brief." },
    { role: "user", content: "hi" },
    { role: "assistant", content: "I look.", reasoning_content: "hm", tool_calls: [call] },
    { role: "tool", content: '{"output":"rain"}', tool_call_id: "call_0", name: "look" },
  ]);
  const image = { inlineData: { mimeType: "image/png", data: "AAAA" } };
  const refusal = await ask({ contents: [{ parts: [image] }] });
  expect(refusal.body.error.message).toContain("this model reads no images");
});

test("the configuration is that of a chat", async () => {
  const generationConfig = {
    temperature: 0.5,
    topP: 0.9,
    topK: 4,
    seed: 7,
    candidateCount: 2,
    maxOutputTokens: 8,
    stopSequences: ["END"],
    presencePenalty: 0.1,
    frequencyPenalty: 0.2,
    thinkingConfig: { thinkingBudget: 0, thinkingLevel: "LOW" },
  };
  expect(await chatOf({ generationConfig })).toMatchObject({
    temperature: 0.5,
    top_p: 0.9,
    top_k: 4,
    seed: 7,
    n: 2,
    max_tokens: 8,
    stop: ["END"],
    presence_penalty: 0.1,
    frequency_penalty: 0.2,
    reasoning_effort: "low",
    chat_template_kwargs: { enable_thinking: false },
  });
});

describe("an answer obeys", () => {
  const schema = { type: "OBJECT", properties: { a: { type: "INTEGER" } }, required: ["a"] };
  const json = { type: "object", properties: { a: { type: "integer" } }, required: ["a"] };
  const config = async (generationConfig: object) => await chatOf({ generationConfig });
  const responseMimeType = "application/json";

  test("a schema of Google, a JSON schema, or JSON", async () => {
    const response_format = { type: "json_schema", json_schema: { schema: json } };
    expect(await config({ responseMimeType, responseSchema: schema })).toMatchObject({ response_format });
    expect(await config({ responseMimeType, responseJsonSchema: json })).toMatchObject({ response_format });
    expect(await config({ responseMimeType })).toMatchObject({ response_format: { type: "json_object" } });
  });

  test("one of several texts, and says what is missing", async () => {
    const type = { responseMimeType: "text/x.enum" };
    const choice = { structured_outputs: { choice: ["a", "b"] } };
    expect(await config({ ...type, responseSchema: { type: "STRING", enum: ["a", "b"] } })).toMatchObject(choice);
    const { status, body } = await ask({ generationConfig: type });
    expect([status, body.error.status, body.error.details[0]]).toEqual([
      400,
      "INVALID_ARGUMENT",
      { reason: "schema", field: "/generationConfig/responseSchema" },
    ]);
  });

  test("the choice of functions", async () => {
    const parameters = { type: "OBJECT", properties: { at: { type: "STRING", nullable: true } } };
    const functionDeclarations = [{ name: "look", parameters }, { name: "hide" }];
    const tools = [{ functionDeclarations }, { googleSearch: {} }];
    const choose = (functionCallingConfig: object) => ({ tools, toolConfig: { functionCallingConfig } });
    const { headers } = await ask({ tools });
    expect(headers.get("warning")).toContain("/tools/1/googleSearch");
    const only = await chatOf(choose({ mode: "ANY", allowedFunctionNames: ["look"] }));
    const at = { anyOf: [{ type: "string" }, { type: "null" }] };
    const shown = { name: "look", parameters: { type: "object", properties: { at } } };
    expect([only.tool_choice, only.tools]).toMatchObject(["required", [{ type: "function", function: shown }]]);
    expect(await chatOf(choose({ mode: "NONE" }))).toMatchObject({ tool_choice: "none" });
    const { body } = await ask(choose({ mode: "ANY", allowedFunctionNames: ["none"] }));
    expect(body.error.message).toContain("none is not among the functions");
  });
});

test("mistakes are refused in words, with Google's status", async () => {
  const refusals: [fields: object, words: string][] = [
    [{ contents: [{ parts: [{ executableCode: {} }] }] }, "must have text, inlineData, functionCall"],
    [{ cachedContent: "cachedContents/1" }, "contents are not stored"],
    [{ generationConfig: { temperature: 3 } }, "generationConfig.temperature"],
    [{ system_instruction: USER }, "Did you mean systemInstruction?"],
  ];
  for (const [fields, words] of refusals) {
    const { status, body } = await ask(fields);
    expect([status, body.error.code, body.error.status]).toEqual([400, 400, "INVALID_ARGUMENT"]);
    expect(body.error.message).toContain(words);
  }
  const array = await app.call("POST", "/v1beta/models/d:streamGenerateContent?alt=json", { contents: [USER] });
  expect(array.body.error.message).toContain('must be "sse"');
  const stranger = await post("generateContent", { contents: [USER] }, { "x-goog-api-key": "vk_nobody" });
  expect([stranger.status, stranger.body.error.status]).toEqual([401, "UNAUTHENTICATED"]);
  const other = await app.call("GET", "/v1/secrets", undefined, { headers: { "x-goog-api-key": app.keyA }, key: null });
  expect(other.status).toBe(401);
  const nowhere = await app.call("POST", "/v1beta/models/d/translate", {});
  expect([nowhere.status, nowhere.body.error.status]).toEqual([404, "NOT_FOUND"]);
  expect((await app.call("GET", "/v1beta/x", undefined, { key: null })).status).toBe(401);
});

test("a refused request is in the request log of its deployment", async () => {
  await ask({ generationConfig: { topP: 2 } });
  const { id } = (await app.call("GET", "/v1/deployments")).body.data[0];
  const [latest] = (await app.call("GET", `/v1/deployments/${id}/requests?limit=1`)).body.data;
  expect(latest).toMatchObject({ status_code: 400, error_message: expect.stringContaining("topP") });
});

test("a stream has a chunk for each piece, and calls, the end and the counts in the last one", () => {
  const translator = createGoogleTranslator(true);
  const head = { id: "x", model: "d" };
  const delta = (fields: object, finish_reason: string | null = null) =>
    translator.chunk({ ...head, choices: [{ index: 0, delta: fields, finish_reason }] } as never);
  const usage = { prompt_tokens: 3, completion_tokens: 5, total_tokens: 8 };
  const text = [
    delta({ reasoning_content: "hm" }),
    delta({ content: "a" }),
    delta({ tool_calls: [{ index: 0, id: "c", function: { name: "f", arguments: '{"x":' } }] }),
    delta({ tool_calls: [{ index: 0, function: { arguments: "1}" } }] }, "tool_calls"),
    translator.chunk({ ...head, choices: [], usage } as never),
    translator.end(),
  ].join("");
  const chunks = text
    .trim()
    .split("\n\n")
    .map((line) => JSON.parse(line.slice("data: ".length)));
  expect(chunks.map((chunk) => chunk.candidates[0].content.parts)).toEqual([
    [{ text: "hm", thought: true }],
    [{ text: "a" }],
    [{ functionCall: { id: "c", name: "f", args: { x: 1 } } }],
  ]);
  expect(chunks.at(-1)).toMatchObject({
    candidates: [{ finishReason: "STOP" }],
    usageMetadata: { promptTokenCount: 3, candidatesTokenCount: 5, totalTokenCount: 8 },
    responseId: "x",
  });
  expect(JSON.parse(translator.error("Too long", "context_length_exceeded")).error).toMatchObject({
    code: 400,
    status: "INVALID_ARGUMENT",
  });
});

test.each([
  [
    { type: "STRING", format: "enum", enum: ["a"] },
    { type: "string", enum: ["a"] },
  ],
  [
    { type: "ARRAY", items: { type: "NUMBER", format: "double" }, minItems: "1", maxItems: 3 },
    { type: "array", items: { type: "number" }, minItems: 1, maxItems: 3 },
  ],
  [{ anyOf: [{ type: "BOOLEAN" }] }, { anyOf: [{ type: "boolean" }] }],
  [
    { type: "OBJECT", properties: { type: { type: "STRING" } }, propertyOrdering: ["type"] },
    { type: "object", properties: { type: { type: "string" } } },
  ],
  [
    { type: "STRING", format: "date-time" },
    { type: "string", format: "date-time" },
  ],
])("%j is the JSON schema %j", (google, schema) => expect(toJsonSchema(google)).toEqual(schema));
