// tier: all (serves models)
/** Calls of the clients of Anthropic and Ollama that `sdks.test.ts` does not make, unchanged, against the executable. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import Anthropic from "@anthropic-ai/sdk";
import { betaZodTool } from "@anthropic-ai/sdk/helpers/beta/zod";
import { Ollama } from "ollama";
import { z } from "zod";
import { tempDir } from "../harness.ts";
import { recordedModel } from "./recorded_model.ts";
import { startServing } from "./served.ts";

const CALL = `<tool_call>\n${JSON.stringify({ name: "get_weather", arguments: { city: "Oslo" } })}\n</tool_call>`;
const FINAL = "There is rain over Oslo today.";
const QUESTION = "What is the weather in Oslo?";
const City = z.object({ city: z.enum(["Oslo", "Bergen"]) });
const MARKS = ["<|before|>", "<|behind|>", "<|between|>"] as const;
/** Fields that the types of newer clients lack. */
const GREEDY: object = { temperature: 0, top_k: 1, top_p: 0.9 };
const SCHEMA = {
  type: "object" as const,
  properties: { city: { type: "string", enum: ["Oslo", "Bergen"] } },
  required: ["city"],
};

let server: Awaited<ReturnType<typeof startServing>>;
let folder: string;
let anthropic: Anthropic;
let ollama: Ollama;
beforeAll(async () => {
  folder = tempDir();
  server = await startServing({
    files: { recorded: recordedModel(folder, [CALL, FINAL], 4096) },
    models: { gaps: { arch: "llama", type: "F32", extraVocab: MARKS, gapTokens: MARKS } },
  });
  await server.deploy({ model: "gaps", name: "gaps", context_length: 256 });
  await server.deploy({ model: "recorded", name: "demo", parallel: 4, context_length: 2048 });
  await server.deploy({ model: "verk-tiny", name: "tiny", parallel: 4, context_length: 512 });
  anthropic = new Anthropic({ baseURL: server.url, apiKey: server.key, maxRetries: 0 });
  ollama = new Ollama({ host: server.url, headers: { Authorization: `Bearer ${server.key}` } });
}, 120_000);
afterAll(async () => {
  await server?.stop();
  if (folder) rmSync(folder, { recursive: true });
});

const user = (content: string | Anthropic.ContentBlockParam[]) => ({ role: "user" as const, content });
const assistant = (content: string | Anthropic.ContentBlockParam[]) => ({ role: "assistant" as const, content });
const tools = [{ name: "get_weather", input_schema: SCHEMA }];
const refusalOf = (call: PromiseLike<unknown>) => Promise.resolve(call).catch((error: unknown) => error);

test("@anthropic-ai/sdk: plain and system texts, streams, a prefill, sampling", async () => {
  const request = { model: "tiny", max_tokens: 8, messages: [user("What is 7 + 5?")] };
  const plain = await anthropic.messages.create({ ...request, ...GREEDY });
  expect(plain.usage.output_tokens).toBeGreaterThan(0);
  expect(plain.stop_reason).toMatch(/end_turn|max_tokens/);
  const system = [{ type: "text" as const, text: "Be brief." }];
  expect((await anthropic.messages.create({ ...request, system })).role).toBe("assistant");
  let text = "";
  for await (const event of await anthropic.messages.create({ ...request, ...GREEDY, stream: true }))
    if (event.type === "content_block_delta" && event.delta.type === "text_delta") text += event.delta.text;
  expect(plain.content).toMatchObject([{ type: "text", text }]);
  const helper = anthropic.messages.stream({ ...request, ...GREEDY });
  const pieces: string[] = [];
  helper.on("text", (piece) => pieces.push(piece));
  expect(await helper.finalText()).toBe(text);
  expect(pieces.join("")).toBe(text);
  const prefilled = { ...request, messages: [...request.messages, assistant("1")] };
  expect((await anthropic.messages.create(prefilled)).usage.input_tokens).toBeGreaterThan(0);
}, 60_000);

test("@anthropic-ai/sdk: any tool, a named tool, streamed input, a result, an error as result", async () => {
  // A forced call begins in the prompt, behind the recording: the grammar alone bounds it, with white space drawn by chance.
  const request = { model: "demo", max_tokens: 512, tools, messages: [user(QUESTION)] };
  for (const tool_choice of [{ type: "any" as const }, { type: "tool" as const, name: "get_weather" }]) {
    const { content } = await anthropic.messages.create({ ...request, tool_choice });
    expect(content.filter(({ type }) => type === "tool_use")).toMatchObject([{ name: "get_weather" }]);
  }
  const none = await anthropic.messages.create({ ...request, model: "tiny", tool_choice: { type: "none" } });
  expect(none.content.some(({ type }) => type === "tool_use")).toBe(false);
  let json = "";
  const stream = anthropic.messages.stream(request);
  stream.on("inputJson", (piece) => {
    json += piece;
  });
  const { content } = await stream.finalMessage();
  expect(JSON.parse(json)).toEqual({ city: "Oslo" });
  const [call] = content.filter((block) => block.type === "tool_use");
  for (const fields of [{ content: "rain" }, { content: [{ type: "text" as const, text: "no" }], is_error: true }]) {
    const result = { type: "tool_result" as const, tool_use_id: call?.id ?? "", ...fields };
    const messages = [user(QUESTION), assistant(content as Anthropic.ContentBlockParam[]), user([result])];
    expect((await anthropic.messages.create({ ...request, messages })).content).toMatchObject([{ text: FINAL }]);
  }
}, 60_000);

test("@anthropic-ai/sdk: thinking, thoughts in the history, documents, betas, the tool runner", async () => {
  const request = { model: "demo", max_tokens: 2048 };
  const thinking = { type: "enabled" as const, budget_tokens: 1024 };
  const thought = await anthropic.messages.create({ ...request, thinking, messages: [user(QUESTION)] });
  expect(thought.content.length).toBeGreaterThan(0);
  for (const block of [
    { type: "thinking" as const, thinking: "Hm.", signature: "x" },
    { type: "redacted_thinking" as const, data: "x" },
  ]) {
    const messages = [user("Hello."), assistant([block, { type: "text", text: "Yes." }]), user(QUESTION)];
    expect((await anthropic.messages.create({ ...request, messages })).content).toMatchObject([{ text: FINAL }]);
  }
  const source = { type: "text" as const, media_type: "text/plain" as const, data: "It rains." };
  const document = { type: "document" as const, source, title: "Notes" };
  const read = await anthropic.messages.create({
    ...request,
    model: "tiny",
    max_tokens: 4,
    messages: [user([document, { type: "text", text: "Why?" }])],
  });
  expect(read.usage.input_tokens).toBeGreaterThan(4);
  const older = { type: "json_schema" as const, schema: { ...SCHEMA, additionalProperties: false } };
  const shaped = await anthropic.beta.messages.create({
    model: "tiny",
    max_tokens: 32,
    messages: [user(QUESTION)],
    betas: ["structured-outputs-2025-11-13"],
    output_format: older,
  });
  const [block] = shaped.content;
  expect(City.safeParse(JSON.parse(block?.type === "text" ? block.text : "")).success).toBe(true);
  const inputs: unknown[] = [];
  const run = (input: z.infer<typeof City>) => {
    inputs.push(input);
    return "rain";
  };
  const tool = betaZodTool({ name: "get_weather", description: "The weather", inputSchema: City, run });
  const runner = anthropic.beta.messages.toolRunner({
    model: "demo",
    max_tokens: 64,
    messages: [user(QUESTION)],
    tools: [tool],
  });
  expect((await runner).content).toMatchObject([{ text: FINAL }]);
  expect(inputs).toEqual([{ city: "Oslo" }]);
}, 60_000);

test("@anthropic-ai/sdk: usage, one model, a cancelled batch, and errors in their classes", async () => {
  const messages = [user("A prompt that is long enough to be in the cache of this server.")];
  const request = { model: "tiny", max_tokens: 2, messages };
  const [first, second] = [await anthropic.messages.create(request), await anthropic.messages.create(request)];
  const all = ({ input_tokens, cache_read_input_tokens: cached }: Anthropic.Usage) => input_tokens + (cached ?? 0);
  expect(all(second.usage)).toBe(all(first.usage));
  expect(second.usage.cache_read_input_tokens).toBeGreaterThan(0);
  expect((await anthropic.models.retrieve("tiny")).id).toBe("tiny");
  const batch = await anthropic.messages.batches.create({ requests: [{ custom_id: "a", params: request }] });
  const stopped = await anthropic.messages.batches.cancel(batch.id).catch((error: unknown) => error);
  if (stopped instanceof Anthropic.BadRequestError)
    expect(stopped.message).toContain("can no longer be cancelled"); // its request was answered before
  else expect(stopped).toMatchObject({ processing_status: expect.stringMatching(/canceling|ended/) });
  const stranger = new Anthropic({ baseURL: server.url, apiKey: "vk_nobody", maxRetries: 0 });
  expect(await refusalOf(stranger.messages.create(request))).toBeInstanceOf(Anthropic.AuthenticationError);
  const wrong = { ...request, max_tokens: -1 };
  expect(await refusalOf(anthropic.messages.create(wrong))).toBeInstanceOf(Anthropic.BadRequestError);
  const search = [{ type: "web_search_20250305" as const, name: "web_search" as const }];
  expect(await refusalOf(anthropic.messages.create({ ...request, tools: search }))).toMatchObject({
    status: 400,
    message: expect.stringContaining("runs no tools of its own"),
  });
}, 60_000);

test("ollama: a plain chat, formats, thinking, images, raw and system prompts", async () => {
  const messages = [{ role: "user", content: QUESTION }];
  const options = { num_predict: 24, temperature: 0 };
  const base = { model: "tiny", options };
  expect((await ollama.chat({ ...base, messages })).done).toBe(true);
  const object = await ollama.chat({ ...base, messages, format: "json" });
  expect(object.message.content).toStartWith("{");
  const shaped = await ollama.chat({ model: "tiny", messages, format: SCHEMA });
  expect(City.safeParse(JSON.parse(shaped.message.content)).success).toBe(true);
  const generated = await ollama.generate({ model: "tiny", prompt: QUESTION, format: SCHEMA });
  expect(City.safeParse(JSON.parse(generated.response ?? "")).success).toBe(true);
  expect((await ollama.chat({ ...base, messages, think: false })).done).toBe(true);
  expect((await ollama.chat({ ...base, messages, think: "low" })).done).toBe(true);
  expect((await ollama.generate({ ...base, prompt: "Once", raw: true })).done).toBe(true);
  expect((await ollama.generate({ ...base, prompt: QUESTION, system: "Be brief." })).done).toBe(true);
  expect(
    (await ollama.generate({ ...base, prompt: QUESTION, options: { ...options, stop: ["1"], seed: 7 } })).done,
  ).toBe(true);
  let text = "";
  for await (const part of await ollama.generate({ ...base, prompt: QUESTION, stream: true })) text += part.response;
  expect(text.length).toBeGreaterThan(0);
  const images = [{ role: "user", content: "What is this?", images: ["AAAA"] }];
  expect(String(await refusalOf(ollama.chat({ ...base, messages: images })))).toContain("reads no images");
  expect(String(await refusalOf(ollama.generate({ ...base, prompt: "a", suffix: "b" })))).toContain("fill a gap");
  expect((await ollama.generate({ ...base, model: "gaps", prompt: "a", suffix: "b" })).done).toBe(true);
  expect((await ollama.chat({ model: "tiny", messages: [] })).done_reason).toBe("load");
}, 60_000);

test("ollama: tools stream, embeddings of older clients, dimensions, the version, copies, and an abort", async () => {
  const messages = [{ role: "user", content: QUESTION }];
  const tool = { type: "function" as const, function: { name: "get_weather", description: "", parameters: SCHEMA } };
  const calls: unknown[] = [];
  for await (const { message } of await ollama.chat({ model: "demo", messages, tools: [tool], stream: true }))
    calls.push(...(message.tool_calls ?? []));
  expect(calls).toMatchObject([{ function: { name: "get_weather", arguments: { city: "Oslo" } } }]);
  expect(Math.hypot(...(await ollama.embeddings({ model: "tiny", prompt: "one" })).embedding)).toBeCloseTo(1, 3);
  expect((await ollama.embed({ model: "tiny", input: "one", dimensions: 8 })).embeddings[0]).toHaveLength(8);
  expect((await ollama.version()).version).toMatch(/^\d/);
  expect((await ollama.show({ model: "tiny:latest" })).model_info).toMatchObject({ "general.architecture": "llama" });
  await ollama.copy({ source: "tiny", destination: "twin" });
  await server.call("GET", "/v1/deployments");
  expect((await ollama.delete({ model: "twin" })).status).toBe("success");
  const statuses: string[] = [];
  for await (const { status } of await ollama.pull({ model: "tiny", stream: true })) statuses.push(status);
  expect(statuses.at(-1)).toBe("success");
  for await (const { status } of await ollama.create({
    model: "poet",
    from: "tiny",
    parameters: { temperature: 0 },
    stream: true,
  }))
    expect(status).toBe("success");
  await ollama.delete({ model: "poet" });
  const options = { num_predict: -1, temperature: 0 };
  const stream = await ollama.generate({ model: "demo", prompt: "a", raw: true, options, stream: true });
  const read = async () => {
    for await (const _ of stream) stream.abort();
  };
  const ended = await refusalOf(read());
  expect(ended === undefined || (ended as Error).name === "AbortError").toBe(true);
}, 90_000);

test("ollama: a model that is not here, no hub, no key, and bodies as curl sends them", async () => {
  const messages = [{ role: "user", content: QUESTION }];
  expect(await refusalOf(ollama.chat({ model: "none", messages }))).toMatchObject({ status_code: 404 });
  expect(String(await refusalOf(ollama.embed({ model: "none", input: "a" })))).toContain("none");
  expect(String(await refusalOf(ollama.pull({ model: "llama3.2:1b" })))).toContain('No model "llama3.2:1b"');
  const stranger = new Ollama({ host: server.url });
  expect(String(await refusalOf(stranger.list()))).toContain("Send an API key: Authorization: Bearer");
  const body = JSON.stringify({ model: "tiny", prompt: "a", stream: false, options: { num_predict: 1 } });
  const headers = { authorization: `Bearer ${server.key}`, "content-type": "application/x-www-form-urlencoded" };
  expect((await fetch(`${server.url}/api/generate`, { method: "POST", body, headers })).status).toBe(200);
  expect(await (await fetch(server.url)).text()).toBe("Ollama is running");
  expect((await fetch(server.url, { method: "HEAD" })).status).toBe(200);
}, 60_000);

test("the context of a deployment is the same in every list", async () => {
  const headers = { authorization: `Bearer ${server.key}` };
  const get = async (path: string) => await (await fetch(`${server.url}${path}`, { headers })).json();
  const named = <T extends { id?: string; name?: string }>(list: T[]) =>
    list.find(({ id, name }) => id === "tiny" || name === "tiny") as T & Record<string, number>;
  expect([
    (await get("/props?model=tiny")).default_generation_settings.n_ctx,
    named((await get("/v1/models")).data)["context_length"],
    (await ollama.show({ model: "tiny" })).model_info["llama.context_length" as never],
    named((await get("/api/ps")).models)["context_length"],
    named((await get("/api/v0/models")).data)["max_context_length"],
  ]).toEqual([512, 512, 512, 512, 512]);
}, 60_000);
