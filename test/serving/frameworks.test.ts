// tier: all (serves models)
/** Frameworks, unchanged, against the executable, beyond steps with a tool (`sdks.test.ts`). */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import type { BaseChatModel } from "@langchain/core/language_models/chat_models";
import { ChatOllama } from "@langchain/ollama";
import { ChatOpenAI } from "@langchain/openai";
import { OpenAI as LlamaIndexOpenAI } from "@llamaindex/openai";
import { Agent, OpenAIProvider, Runner, user } from "@openai/agents";
import { APICallError, embedMany, generateText, type LanguageModel, Output, streamText } from "ai";
import { z } from "zod";
import { tempDir } from "../harness.ts";
import { recordedModel } from "./recorded_model.ts";
import { startServing } from "./served.ts";

const FIRST = "There is rain over Oslo today.";
const SECOND = "Tomorrow the sun shines.";
const HANDOFF = `<tool_call>\n${JSON.stringify({ name: "transfer_to_Sky", arguments: {} })}\n</tool_call>`;
const QUESTION = "What is the weather in Oslo?";
const City = z.object({ city: z.enum(["Oslo", "Bergen"]) });

let server: Awaited<ReturnType<typeof startServing>>;
const folders: string[] = [];
let v1: { apiKey: string; baseURL: string };
let headers: { Authorization: string };
beforeAll(async () => {
  const file = (answers: string[]) => {
    folders.push(tempDir());
    return recordedModel(folders.at(-1) as string, answers, 4096);
  };
  server = await startServing({ files: { talk: file([FIRST, SECOND]), desk: file([HANDOFF, FIRST]) } });
  await server.deploy({ model: "talk", name: "talk", parallel: 4, context_length: 2048 });
  await server.deploy({ model: "desk", name: "desk", parallel: 4, context_length: 2048 });
  await server.deploy({ model: "verk-tiny", name: "tiny", parallel: 4, context_length: 512 });
  v1 = { apiKey: server.key, baseURL: `${server.url}/v1` };
  headers = { Authorization: `Bearer ${server.key}` };
}, 120_000);
afterAll(async () => {
  await server?.stop();
  for (const folder of folders) rmSync(folder, { recursive: true });
});

const MODELS: [name: string, model: (id: string) => LanguageModel][] = [
  ["@ai-sdk/openai", (id) => createOpenAI(v1)(id)],
  ["@ai-sdk/openai with chat", (id) => createOpenAI(v1).chat(id)],
  ["@ai-sdk/anthropic", (id) => createAnthropic(v1)(id)],
  [
    "@ai-sdk/openai-compatible",
    (id) => createOpenAICompatible({ name: "verk", includeUsage: true, supportsStructuredOutputs: true, ...v1 })(id),
  ],
];
for (const [name, model] of MODELS) {
  test(`AI SDK, ${name}: texts, tokens, the end, an abort, an error`, async () => {
    const request = { model: model("talk"), instructions: "Be brief.", prompt: QUESTION, maxRetries: 0 };
    const { text, usage, finishReason } = await generateText(request);
    expect([text, finishReason]).toEqual([FIRST, "stop"]);
    expect([usage.inputTokens, usage.outputTokens]).toEqual([expect.any(Number), expect.any(Number)]);
    const stream = streamText(request);
    let said = "";
    for await (const part of stream.textStream) said += part;
    expect([said, (await stream.usage).outputTokens]).toEqual([FIRST, usage.outputTokens]);
    const cut = await generateText({ ...request, maxOutputTokens: 1 });
    expect(cut.finishReason).toBe("length");
    const messages = [
      { role: "user" as const, content: QUESTION },
      { role: "assistant" as const, content: FIRST },
      { role: "user" as const, content: "And tomorrow?" },
    ];
    expect((await generateText({ model: model("talk"), messages, maxRetries: 0 })).text).toBe(SECOND);
    const aborted = generateText({ ...request, abortSignal: AbortSignal.abort() }).catch((error: unknown) => error);
    expect(await aborted).toMatchObject({ name: "AbortError" });
    const wrong = await generateText({ ...request, model: model("none") }).catch((error: unknown) => error);
    expect(APICallError.isInstance(wrong) && wrong.statusCode).toBe(404);
  }, 60_000);

  test(`AI SDK, ${name}: an object, whole and streamed`, async () => {
    const request = { model: model("tiny"), prompt: QUESTION, output: Output.object({ schema: City }), maxRetries: 0 };
    expect(City.safeParse((await generateText(request)).output).success).toBe(true);
    const stream = streamText(request);
    let last: unknown;
    for await (const part of stream.partialOutputStream) last = part;
    expect(City.safeParse(last).success).toBe(true);
  }, 60_000);
}

test("AI SDK: completions and embeddings of @ai-sdk/openai", async () => {
  const provider = createOpenAI(v1);
  const request = {
    model: provider.completion("tiny"),
    prompt: "Once",
    maxOutputTokens: 4,
    temperature: 0,
    maxRetries: 0,
  };
  const { text } = await generateText(request);
  let said = "";
  for await (const part of streamText(request).textStream) said += part;
  expect(said).toBe(text);
  const { embeddings } = await embedMany({ model: provider.embedding("tiny"), values: ["one", "two"], maxRetries: 0 });
  expect(embeddings.map((each) => Math.hypot(...each))).toEqual([expect.closeTo(1, 3), expect.closeTo(1, 3)]);
}, 60_000);

const CHATS: [name: string, chat: (model: string) => BaseChatModel][] = [
  [
    "@langchain/openai",
    (model: string) => new ChatOpenAI({ model, apiKey: v1.apiKey, configuration: v1, maxRetries: 0 }),
  ],
  [
    "@langchain/openai with responses",
    (model: string) =>
      new ChatOpenAI({ model, apiKey: v1.apiKey, configuration: v1, maxRetries: 0, useResponsesApi: true }),
  ],
  ["@langchain/ollama", (model: string) => new ChatOllama({ model, baseUrl: server.url, headers, maxRetries: 0 })],
];
for (const [name, chat] of CHATS)
  test(`LangChain, ${name}: a system message, a batch, tokens, an object, an error`, async () => {
    const said = await chat("talk").invoke([
      ["system", "Be brief."],
      ["human", QUESTION],
    ]);
    expect(said.text).toBe(FIRST);
    expect(said.usage_metadata).toMatchObject({ input_tokens: expect.any(Number), output_tokens: expect.any(Number) });
    const both = await chat("talk").batch([QUESTION, "And Bergen?"]);
    expect(both.map((message) => message.text)).toEqual([FIRST, FIRST]);
    const next = await chat("talk").invoke([
      ["human", QUESTION],
      ["ai", FIRST],
      ["human", "And tomorrow?"],
    ]);
    expect(next.text).toBe(SECOND);
    const structured = chat("tiny").withStructuredOutput(City, { method: "jsonSchema" });
    expect(City.safeParse(await structured.invoke(QUESTION)).success).toBe(true);
    await expect(chat("none").invoke(QUESTION)).rejects.toThrow(/none/);
  }, 60_000);

test("LlamaIndex, @llamaindex/openai: a chat, a stream, a text", async () => {
  const llm = new LlamaIndexOpenAI({ model: "talk", ...v1, maxRetries: 0 } as never);
  const messages = [{ role: "user" as const, content: QUESTION }];
  expect((await llm.chat({ messages })).message.content).toBe(FIRST);
  let said = "";
  for await (const { delta } of await llm.chat({ messages, stream: true })) said += delta;
  expect(said).toBe(FIRST);
  expect((await llm.complete({ prompt: QUESTION })).text).toBe(FIRST);
}, 60_000);

for (const useResponses of [true, false])
  test(`@openai/agents through ${useResponses ? "responses" : "chat"}: an object, a handoff, a history`, async () => {
    const runner = new Runner({ modelProvider: new OpenAIProvider({ ...v1, useResponses }), tracingDisabled: true });
    const shaped = new Agent({ name: "Shaped", model: "tiny", outputType: City });
    expect(City.safeParse((await runner.run(shaped, QUESTION)).finalOutput).success).toBe(true);
    const sky = new Agent({ name: "Sky", model: "talk" });
    const desk = Agent.create({ name: "Desk", model: "desk", handoffs: [sky] });
    const handed = await runner.run(desk, QUESTION);
    expect([handed.lastAgent?.name, typeof handed.finalOutput]).toEqual(["Sky", "string"]);
    const first = await runner.run(sky, QUESTION);
    expect(first.finalOutput).toBe(FIRST);
    expect((await runner.run(sky, [...first.history, user("And tomorrow?")])).finalOutput).toBe(SECOND);
  }, 60_000);
