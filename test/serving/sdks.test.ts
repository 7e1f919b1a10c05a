// tier: all (serves models)
/**
 * Clients from npm, unchanged, against the executable: each streams, and calls a tool and reads its result. The model is a
 * recording, so that every answer is known.
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import Anthropic from "@anthropic-ai/sdk";
import { HumanMessage, type ToolMessage } from "@langchain/core/messages";
import { tool as langchainTool } from "@langchain/core/tools";
import { ChatOllama, OllamaEmbeddings } from "@langchain/ollama";
import { ChatOpenAI } from "@langchain/openai";
import { OpenAI as LlamaIndexOpenAI } from "@llamaindex/openai";
import { Agent, tool as agentTool, OpenAIProvider, Runner } from "@openai/agents";
import { generateText, type LanguageModel, stepCountIs, streamText, tool } from "ai";
import { tool as llamaIndexTool } from "llamaindex";
import { Ollama } from "ollama";
import OpenAI from "openai";
import { z } from "zod";
import { tempDir, until } from "../harness.ts";
import { recordedModel } from "./recorded_model.ts";
import { startServing } from "./served.ts";

const CALL = `<tool_call>\n${JSON.stringify({ name: "get_weather", arguments: { city: "Oslo" } })}\n</tool_call>`;
const FINAL = "There is rain over Oslo today.";
const QUESTION = "What is the weather in Oslo?";
const City = z.object({ city: z.enum(["Oslo", "Bergen"]) });
const SCHEMA = {
  type: "object" as const,
  properties: { city: { type: "string", enum: ["Oslo", "Bergen"] } },
  required: ["city"],
  additionalProperties: false,
};
const weather = { name: "get_weather", description: "The weather of a city" };

let server: Awaited<ReturnType<typeof startServing>>;
let folder: string;
let v1: { apiKey: string; baseURL: string };
let headers: { Authorization: string };
beforeAll(async () => {
  folder = tempDir();
  server = await startServing({ files: { recorded: recordedModel(folder, [CALL, FINAL], 4096) } });
  await server.deploy({ model: "recorded", name: "demo", parallel: 2, context_length: 4096 });
  v1 = { apiKey: server.key, baseURL: `${server.url}/v1` };
  headers = { Authorization: `Bearer ${server.key}` };
}, 120_000);
afterAll(async () => {
  await server?.stop();
  if (folder) rmSync(folder, { recursive: true });
});

test("openai: the runner of tools", async () => {
  const client = new OpenAI({ ...v1, maxRetries: 0 });
  const inputs: string[] = [];
  const ask = async (input: string) => {
    inputs.push(input);
    return "rain";
  };
  const tools = [{ type: "function" as const, function: { ...weather, parameters: SCHEMA, function: ask } }];
  const messages = [{ role: "user" as const, content: QUESTION }];
  const runner = client.chat.completions.runTools({ model: "demo", messages, tools });
  expect(await runner.finalContent()).toBe(FINAL);
  expect(inputs.map((each) => JSON.parse(each))).toEqual([{ city: "Oslo" }]);
  const streaming = client.chat.completions.runTools({ model: "demo", messages, tools, stream: true });
  expect(await streaming.finalContent()).toBe(FINAL);
  expect(inputs).toHaveLength(2);
}, 60_000);

test("@anthropic-ai/sdk: a tool and its result, a stream, tokens, models and errors", async () => {
  const client = new Anthropic({ baseURL: server.url, apiKey: server.key, maxRetries: 0 });
  const tools = [{ ...weather, input_schema: SCHEMA }];
  const messages: Anthropic.MessageParam[] = [{ role: "user", content: QUESTION }];
  const request = { model: "demo", max_tokens: 64, tools };
  const called = await client.messages.create({ ...request, messages });
  const call = called.content.find((block) => block.type === "tool_use");
  expect([called.stop_reason, call?.name, call?.input]).toEqual(["tool_use", "get_weather", { city: "Oslo" }]);
  const streamed = await client.messages.stream({ ...request, messages }).finalMessage();
  expect(streamed.content.map((block) => block.type === "tool_use" && block.input)).toEqual([{ city: "Oslo" }]);
  const result = { type: "tool_result" as const, tool_use_id: call?.id ?? "", content: "rain" };
  const next = [...messages, { role: "assistant" as const, content: called.content }];
  const stream = client.messages.stream({
    ...request,
    messages: [...next, { role: "user", content: [result] }],
  });
  expect(await stream.finalText()).toBe(FINAL);
  const { input_tokens } = await client.messages.countTokens({ model: "demo", tools, messages });
  expect(input_tokens).toBe(called.usage.input_tokens + (called.usage.cache_read_input_tokens ?? 0));
  const [model] = (await client.models.list()).data;
  expect([model?.id, model?.type, model?.display_name]).toEqual(["demo", "model", "demo"]);
  const unknown = await client.messages.create({ ...request, model: "claude", messages }).catch((error) => error);
  expect(unknown).toBeInstanceOf(Anthropic.NotFoundError);
}, 60_000);

test("@anthropic-ai/sdk: structured output, a stop sequence, a file, and a batch", async () => {
  const client = new Anthropic({ baseURL: server.url, apiKey: server.key, maxRetries: 0 });
  const messages: Anthropic.MessageParam[] = [{ role: "user", content: QUESTION }];
  const request = { model: "demo", max_tokens: 64, messages };
  const format = { type: "json_schema" as const, schema: SCHEMA };
  const structured = await client.messages.create({ ...request, output_config: { format } });
  const [block] = structured.content;
  expect(City.safeParse(JSON.parse(block?.type === "text" ? block.text : "")).success).toBe(true);
  const stopped = await client.messages.create({ ...request, stop_sequences: ["get_weather"] });
  expect([stopped.stop_reason, stopped.stop_sequence]).toEqual(["stop_sequence", "get_weather"]);

  const file = await client.beta.files.upload({ file: new File(["It rains."], "notes.txt", { type: "text/plain" }) });
  expect(file).toMatchObject({ type: "file", filename: "notes.txt", mime_type: "text/plain", size_bytes: 9 });
  const source = { type: "file" as const, file_id: file.id };
  const content = [
    { type: "document" as const, source },
    { type: "text" as const, text: QUESTION },
  ];
  const read = await client.beta.messages.create({ ...request, messages: [{ role: "user", content }] });
  expect(read.usage.output_tokens).toBeGreaterThan(0);
  for await (const { id } of client.beta.files.list()) expect(id).toBe(file.id);
  expect((await client.beta.files.delete(file.id)).type).toBe("file_deleted");
  await expect((async () => await client.beta.files.retrieveMetadata(file.id))()).rejects.toBeInstanceOf(
    Anthropic.NotFoundError,
  );

  const { id } = await client.messages.batches.create({
    requests: [
      { custom_id: "good", params: request },
      { custom_id: "bad", params: { ...request, model: "none" } },
    ],
  });
  const isOver = async () => (await client.messages.batches.retrieve(id)).processing_status === "ended";
  await until("the end of the batch", isOver, 60_000);
  const results = [];
  for await (const { custom_id, result } of await client.messages.batches.results(id))
    results.push([custom_id, result.type]);
  expect(results).toEqual([
    ["good", "succeeded"],
    ["bad", "errored"],
  ]);
  expect((await client.messages.batches.list()).data.map((batch) => batch.id)).toEqual([id]);
  expect((await client.messages.batches.delete(id)).type).toBe("message_batch_deleted");
}, 120_000);

test("ollama: log-probabilities, the context of generate, and unload", async () => {
  const client = new Ollama({ host: server.url, headers });
  const options = { num_predict: 3, temperature: 0 };
  const messages = [{ role: "user", content: QUESTION }];
  const scored = await client.chat({ model: "demo", messages, options, logprobs: true, top_logprobs: 2 });
  expect(scored.logprobs).toHaveLength(3);
  expect(scored.logprobs?.[0]?.top_logprobs).toHaveLength(2);
  let streamed = 0;
  for await (const part of await client.generate({
    model: "demo",
    prompt: QUESTION,
    options,
    logprobs: true,
    stream: true,
  }))
    streamed += part.logprobs?.length ?? 0;
  expect(streamed).toBe(3);
  const first = await client.generate({ model: "demo", prompt: QUESTION, options });
  expect(first.context).toHaveLength(first.prompt_eval_count + first.eval_count);
  const next = await client.generate({ model: "demo", prompt: "And Bergen?", context: first.context, options });
  expect(next.prompt_eval_count).toBeGreaterThan(first.context.length);
  const unloaded = await client.generate({ model: "demo", prompt: "", keep_alive: 0 });
  expect(unloaded.done_reason).toBe("unload");
  await expect(client.push({ model: "demo" })).rejects.toThrow("must be owner/name");
}, 60_000);

test("ollama: tools, streams, generate, embeddings, and the list of models", async () => {
  const client = new Ollama({ host: server.url, headers });
  const tools = [{ type: "function" as const, function: { ...weather, parameters: SCHEMA } }];
  const messages: { role: string; content: string; tool_name?: string }[] = [{ role: "user", content: QUESTION }];
  const { message } = await client.chat({ model: "demo", messages, tools });
  expect(message.tool_calls?.map((call) => call.function)).toEqual([
    { name: "get_weather", arguments: { city: "Oslo" } },
  ]);
  messages.push(message, { role: "tool", tool_name: "get_weather", content: "rain" });
  let said = "";
  for await (const part of await client.chat({ model: "demo", messages, tools, stream: true }))
    said += part.message.content;
  expect(said).toBe(FINAL);
  const whole = await client.generate({ model: "demo", prompt: QUESTION, options: { num_predict: 3 } });
  expect([whole.done, whole.eval_count]).toEqual([true, 3]);
  const { embeddings } = await client.embed({ model: "demo", input: ["one", "two"] });
  expect(embeddings.map((each) => Math.hypot(...each))).toEqual([expect.closeTo(1, 3), expect.closeTo(1, 3)]);
  expect((await client.list()).models.map(({ name }) => name)).toEqual(["demo"]);
  expect((await client.ps()).models.map(({ name }) => name)).toEqual(["demo"]);
  expect((await client.show({ model: "demo" })).capabilities).toContain("tools");
  expect((await client.pull({ model: "demo" })).status).toBe("success");
  await client.create({ model: "poet", from: "demo", system: "Answer in verse." });
  expect((await client.chat({ model: "poet", messages })).message.content).toBe(FINAL);
  await client.delete({ model: "poet" });
  await expect(client.show({ model: "poet" })).rejects.toThrow(/poet/);
}, 60_000);

const models: [name: string, model: () => LanguageModel][] = [
  ["@ai-sdk/openai", () => createOpenAI(v1)("demo")],
  ["@ai-sdk/openai with chat", () => createOpenAI(v1).chat("demo")],
  ["@ai-sdk/anthropic", () => createAnthropic(v1)("demo")],
  ["@ai-sdk/openai-compatible", () => createOpenAICompatible({ name: "verk", includeUsage: true, ...v1 })("demo")],
];
for (const [name, model] of models)
  test(`${name}: steps with a tool, whole and streamed`, async () => {
    const inputs: unknown[] = [];
    const execute = async (input: z.infer<typeof City>) => {
      inputs.push(input);
      return "rain";
    };
    const tools = { get_weather: tool({ description: weather.description, inputSchema: City, execute }) };
    const request = { model: model(), prompt: QUESTION, tools, stopWhen: stepCountIs(3), maxRetries: 0 };
    const { text, steps } = await generateText(request);
    expect([text, steps.length]).toEqual([FINAL, 2]);
    const stream = streamText(request);
    let said = "";
    for await (const part of stream.textStream) said += part;
    expect([said, (await stream.totalUsage).outputTokens]).toEqual([FINAL, expect.any(Number)]);
    expect(inputs).toEqual([{ city: "Oslo" }, { city: "Oslo" }]);
  }, 60_000);

const chats = [
  ["@langchain/openai", () => new ChatOpenAI({ model: "demo", apiKey: v1.apiKey, configuration: v1, maxRetries: 0 })],
  [
    "@langchain/openai with responses",
    () => new ChatOpenAI({ model: "demo", apiKey: v1.apiKey, configuration: v1, maxRetries: 0, useResponsesApi: true }),
  ],
  ["@langchain/ollama", () => new ChatOllama({ model: "demo", baseUrl: server.url, headers, maxRetries: 0 })],
] as const;
for (const [name, chat] of chats)
  test(`${name}: a bound tool, its result, and a stream`, async () => {
    const ask = langchainTool(() => "rain", { ...weather, schema: City });
    const model = chat().bindTools([ask]);
    const question = new HumanMessage(QUESTION);
    const called = await model.invoke([question]);
    const [call] = called.tool_calls ?? [];
    expect([call?.name, call?.args]).toEqual(["get_weather", { city: "Oslo" }]);
    if (!call) throw new Error("no call");
    const result = (await ask.invoke(call)) as unknown as ToolMessage;
    let said = "";
    for await (const part of await model.stream([question, called, result])) said += part.text;
    expect(said).toBe(FINAL);
  }, 60_000);

test("@langchain/ollama: embeddings", async () => {
  const embeddings = new OllamaEmbeddings({ model: "demo", baseUrl: server.url, headers });
  expect(Math.hypot(...(await embeddings.embedQuery("one")))).toBeCloseTo(1, 3);
}, 60_000);

test("llamaindex: a tool and its result in a stream", async () => {
  const llm = new LlamaIndexOpenAI({ model: "demo", ...v1, maxRetries: 0, supportToolCall: true } as never);
  const ask = llamaIndexTool({ ...weather, parameters: City, execute: () => "rain" });
  const question = { role: "user" as const, content: QUESTION };
  const { newMessages, toolCalls } = await llm.exec({ messages: [question], tools: [ask] });
  expect(toolCalls.map(({ name, input }) => [name, input])).toEqual([["get_weather", { city: "Oslo" }]]);
  let said = "";
  for await (const part of await llm.chat({ messages: [question, ...newMessages], tools: [ask], stream: true }))
    said += part.delta;
  expect(said).toBe(FINAL);
}, 60_000);

for (const useResponses of [true, false])
  test(`@openai/agents: a run with a tool through ${useResponses ? "responses" : "chat"}, whole and streamed`, async () => {
    const modelProvider = new OpenAIProvider({ ...v1, useResponses });
    const runner = new Runner({ modelProvider, tracingDisabled: true });
    const ask = agentTool({ ...weather, parameters: City, execute: () => "rain" });
    const agent = new Agent({ name: "Weather", model: "demo", instructions: "Use the tool.", tools: [ask] });
    expect((await runner.run(agent, QUESTION)).finalOutput).toBe(FINAL);
    const stream = await runner.run(agent, QUESTION, { stream: true });
    let said = "";
    for await (const part of stream.toTextStream()) said += part;
    await stream.completed;
    expect([said, stream.finalOutput]).toEqual([FINAL, FINAL]);
  }, 60_000);
