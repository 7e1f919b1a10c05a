// tier: all (installs clients, serves models)
/** Further clients from npm, unchanged, against the executable. They are installed with the coding agents. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { deliveryHeaders, mintSecret } from "../../src/lib/webhooks/signature.ts";
import { clientOf, installAgents } from "../agents/agents.ts";
import { tempDir, until } from "../harness.ts";
import { NotAvailable } from "../servers/process.ts";
import { recordedModel } from "./recorded_model.ts";
import { startServing } from "./served.ts";

const unavailable = await installAgents().then(
  () => undefined,
  (error: unknown) => {
    if (error instanceof NotAvailable) return error.message;
    throw error;
  },
);
const client = (title: string, run: () => Promise<void>) =>
  test.skipIf(unavailable !== undefined)(unavailable === undefined ? title : `${title} (${unavailable})`, run, 60_000);

const CALL = `<tool_call>\n${JSON.stringify({ name: "get_weather", arguments: { city: "Oslo" } })}\n</tool_call>`;
const FINAL = "There is rain over Oslo today.";
const QUESTION = "What is the weather in Oslo?";
const SCHEMA = {
  type: "object",
  properties: { city: { type: "string", enum: ["Oslo", "Bergen"] } },
  required: ["city"],
  additionalProperties: false,
};
const CITY = { city: expect.stringMatching(/^(Oslo|Bergen)$/) };

let server: Awaited<ReturnType<typeof startServing>>;
let folder: string;
beforeAll(async () => {
  folder = tempDir();
  server = await startServing({ files: { recorded: recordedModel(folder, [CALL, FINAL], 4096) } });
  await server.deploy({ model: "recorded", name: "demo", parallel: 4, context_length: 2048 });
  await server.deploy({ model: "verk-tiny", name: "tiny", parallel: 4, context_length: 512 });
}, 120_000);
afterAll(async () => {
  await server?.stop();
  if (folder) rmSync(folder, { recursive: true });
});

const messages = [{ role: "user", content: QUESTION }];

client("@google/genai: contents, a stream, tokens, embeddings, the list of models", async () => {
  const { GoogleGenAI } = await clientOf("@google/genai");
  const { models } = new GoogleGenAI({ apiKey: server.key, httpOptions: { baseUrl: server.url } });
  const config = { temperature: 0, maxOutputTokens: 8, systemInstruction: "Be brief." };
  const request = { model: "tiny", contents: "What is 7 + 5?", config };
  const whole = await models.generateContent(request);
  expect(whole.usageMetadata.candidatesTokenCount).toBeGreaterThan(0);
  let text = "";
  let last: { finishReason?: string } | undefined;
  for await (const chunk of await models.generateContentStream(request)) {
    text += chunk.text;
    last = chunk.candidates[0];
  }
  expect([text, last?.finishReason]).toEqual([whole.text, whole.candidates[0].finishReason]);
  const { totalTokens } = await models.countTokens({ model: "tiny", contents: "What is 7 + 5?" });
  expect(totalTokens).toBeGreaterThan(3);
  const contents = ["one", "two"];
  const { embeddings } = await models.embedContent({ model: "tiny", contents, config: { outputDimensionality: 8 } });
  expect(embeddings.map(({ values }: { values: number[] }) => values.length)).toEqual([8, 8]);
  const names: string[] = [];
  for await (const { name } of await models.list({ config: { pageSize: 1 } })) names.push(name);
  expect(names).toEqual(["models/demo", "models/tiny"]);
  expect((await models.get({ model: "tiny" })).displayName).toBe("tiny");
  const wrong = await models.generateContent({ ...request, model: "none" }).catch((error: unknown) => error);
  expect(wrong).toMatchObject({ name: "ApiError", status: 404, message: expect.stringContaining("NOT_FOUND") });
});

client("@google/genai: a function and its result, a schema, a chat that streams", async () => {
  const { GoogleGenAI, Type } = await clientOf("@google/genai");
  const ai = new GoogleGenAI({ apiKey: server.key, httpOptions: { baseUrl: server.url } });
  const parameters = {
    type: Type.OBJECT,
    properties: { city: { type: Type.STRING, enum: ["Oslo", "Bergen"] } },
    required: ["city"],
  };
  const tools = [{ functionDeclarations: [{ name: "get_weather", description: "The weather", parameters }] }];
  const question = { role: "user", parts: [{ text: QUESTION }] };
  const called = await ai.models.generateContent({ model: "demo", contents: [question], config: { tools } });
  const [call] = called.functionCalls;
  expect([call.name, call.args]).toEqual(["get_weather", { city: "Oslo" }]);
  const result = { functionResponse: { id: call.id, name: call.name, response: { output: "rain" } } };
  const contents = [question, called.candidates[0].content, { role: "user", parts: [result] }];
  expect((await ai.models.generateContent({ model: "demo", contents, config: { tools } })).text).toBe(FINAL);
  const shape = { responseMimeType: "application/json", responseSchema: parameters };
  const shaped = await ai.models.generateContent({ model: "tiny", contents: QUESTION, config: shape });
  expect(JSON.parse(shaped.text)).toEqual(CITY);
  const chat = ai.chats.create({ model: "demo" });
  for await (const _ of await chat.sendMessageStream({ message: "Hello." }));
  let text = "";
  for await (const chunk of await chat.sendMessageStream({ message: QUESTION })) text += chunk.text;
  expect(text).toBe(FINAL);
});

client("@huggingface/inference: chats, a stream, a tool, a schema, embeddings", async () => {
  const { InferenceClient } = await clientOf("@huggingface/inference");
  const hub = new InferenceClient(server.key);
  const request = { model: "tiny", messages, endpointUrl: server.url, max_tokens: 8, temperature: 0 };
  const whole = await hub.chatCompletion(request);
  let text = "";
  for await (const { choices } of hub.chatCompletionStream(request)) text += choices[0]?.delta.content ?? "";
  expect(text).toBe(whole.choices[0].message.content);
  const there = await hub.endpoint(server.url).chatCompletion({ model: "tiny", messages, max_tokens: 2 });
  expect(there.choices).toHaveLength(1);
  const tools = [{ type: "function", function: { name: "get_weather", parameters: SCHEMA } }];
  const called = await hub.chatCompletion({ ...request, model: "demo", max_tokens: 64, tools });
  expect(called.choices[0].message.tool_calls).toMatchObject([{ function: { name: "get_weather" } }]);
  const response_format = { type: "json_schema", json_schema: { name: "city", schema: SCHEMA } };
  const shaped = await hub.chatCompletion({ ...request, max_tokens: 32, response_format });
  expect(JSON.parse(shaped.choices[0].message.content)).toEqual(CITY);
  const endpointUrl = `${server.url}/models/tiny/pipeline/feature-extraction`;
  expect(Math.hypot(...(await hub.featureExtraction({ endpointUrl, inputs: "one" })))).toBeCloseTo(1, 3);
  expect(await hub.featureExtraction({ endpointUrl, inputs: ["one", "two"] })).toHaveLength(2);
});

client("@langchain/anthropic: texts, a stream, a batch, tokens, a tool and its result, an error", async () => {
  const { ChatAnthropic } = await clientOf("@langchain/anthropic");
  const { tool } = await clientOf("@langchain/core/tools");
  const options = { apiKey: server.key, anthropicApiUrl: server.url, maxTokens: 64, maxRetries: 0 };
  const chat = new ChatAnthropic({ ...options, model: "demo" });
  const said = await new ChatAnthropic({ ...options, model: "tiny", temperature: 0 }).invoke([
    ["system", "Be brief."],
    ["human", "What is 7 + 5?"],
  ]);
  expect(said.usage_metadata.output_tokens).toBeGreaterThan(0);
  const talk = [
    ["human", "Hello."],
    ["ai", "Hello."],
    ["human", QUESTION],
  ];
  let text = "";
  for await (const part of await chat.stream(talk)) text += part.text;
  expect(text).toBe(FINAL);
  const both = await chat.batch([talk, talk]);
  expect(both.map((message: { text: string }) => message.text)).toEqual([FINAL, FINAL]);
  const weather = tool(() => "rain", { name: "get_weather", description: "The weather", schema: SCHEMA });
  const bound = chat.bindTools([weather]);
  const called = await bound.invoke([["human", QUESTION]]);
  expect(called.tool_calls).toMatchObject([{ name: "get_weather", args: { city: "Oslo" } }]);
  const result = await weather.invoke(called.tool_calls[0]);
  expect((await bound.invoke([["human", QUESTION], called, result])).text).toBe(FINAL);
  await expect(new ChatAnthropic({ ...options, model: "none" }).invoke(QUESTION)).rejects.toThrow(/none/);
});

client("@llamaindex/anthropic: a chat and a stream", async () => {
  const { Anthropic } = await clientOf("@llamaindex/anthropic");
  const { ANTHROPIC_BASE_URL: before } = process.env;
  process.env["ANTHROPIC_BASE_URL"] = server.url; // it ignores its own setting
  try {
    const llm = new Anthropic({ model: "tiny", apiKey: server.key, maxTokens: 8, temperature: 0 });
    const whole = await llm.chat({ messages });
    let text = "";
    for await (const { delta } of await llm.chat({ messages, stream: true })) text += delta;
    expect([whole.message.content.length > 0, text.length > 0]).toEqual([true, true]);
  } finally {
    if (before === undefined) delete process.env["ANTHROPIC_BASE_URL"];
    else process.env["ANTHROPIC_BASE_URL"] = before;
  }
});

client("@llamaindex/ollama: a chat, a stream, a text, an embedding", async () => {
  const { Ollama, OllamaEmbedding } = await clientOf("@llamaindex/ollama");
  const config = { host: server.url, headers: { Authorization: `Bearer ${server.key}` } };
  const llm = new Ollama({ model: "tiny", config, options: { num_predict: 8, temperature: 0 } });
  const whole = await llm.chat({ messages });
  let text = "";
  for await (const { delta } of await llm.chat({ messages, stream: true })) text += delta;
  expect(text).toBe(whole.message.content);
  expect(typeof (await llm.complete({ prompt: "Once" })).text).toBe("string");
  const embedding = new OllamaEmbedding({ model: "tiny", config });
  expect(Math.hypot(...(await embedding.getTextEmbedding("one")))).toBeCloseTo(1, 3);
});

client("@mastra/core: an answer, a stream, a tool, an object", async () => {
  const { Agent } = await clientOf("@mastra/core/agent");
  const { createTool } = await clientOf("@mastra/core/tools");
  const { z } = await clientOf("zod");
  const model = (modelId: string) => ({ providerId: "verk", modelId, url: `${server.url}/v1`, apiKey: server.key });
  const plain = new Agent({ id: "plain", name: "plain", instructions: "Be brief.", model: model("tiny") });
  const limits = { modelSettings: { maxOutputTokens: 8, temperature: 0 } };
  const { text } = await plain.generate("What is 7 + 5?", limits);
  let said = "";
  for await (const part of (await plain.stream("What is 7 + 5?", limits)).textStream) said += part;
  expect(said).toBe(text);
  const City = z.object({ city: z.enum(["Oslo", "Bergen"]) });
  const inputs: unknown[] = [];
  const weather = createTool({
    id: "get_weather",
    description: "The weather",
    inputSchema: City,
    execute: async (input: { context?: unknown }) => {
      inputs.push(input.context ?? input);
      return { weather: "rain" };
    },
  });
  const tools = { get_weather: weather };
  const asking = new Agent({
    id: "asking",
    name: "asking",
    instructions: "Use the tool.",
    model: model("demo"),
    tools,
  });
  expect((await asking.generate(QUESTION)).text).toContain(FINAL);
  expect(inputs).toMatchObject([{ city: "Oslo" }]);
  const shaped = await plain.generate(QUESTION, { structuredOutput: { schema: City } });
  expect(shaped.object).toEqual(CITY);
});

client("svix verifies a delivery", async () => {
  const { Webhook } = await clientOf("svix");
  const secret = mintSecret();
  const body = Buffer.from('{"type":"job.completed"}');
  const headers = deliveryHeaders({ id: "evt_1", timestampSeconds: Math.floor(Date.now() / 1000), body }, [secret]);
  expect(new Webhook(secret).verify(body, headers)).toEqual({ type: "job.completed" });
  expect(() => new Webhook(mintSecret()).verify(body, headers)).toThrow("No matching");
});

client("@opentelemetry/exporter-trace-otlp-http at the path where it sends by default", async () => {
  const { OTLPTraceExporter } = await clientOf("@opentelemetry/exporter-trace-otlp-http");
  const { BasicTracerProvider, SimpleSpanProcessor } = await clientOf("@opentelemetry/sdk-trace-base");
  for (const path of ["/v1/traces", "/v1/otlp/v1/traces"]) {
    const model = `json${path.length}`;
    const headers = { authorization: `Bearer ${server.key}` };
    const exporter = new OTLPTraceExporter({ url: `${server.url}${path}`, headers });
    const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
    const span = provider.getTracer("test").startSpan("chat");
    span.setAttributes({ "gen_ai.operation.name": "chat", "gen_ai.request.model": model });
    span.end();
    await provider.forceFlush();
    await until(`the trace of ${model}`, async () =>
      (await server.get("/v1/traces")).data.some((trace: { model: string }) => trace.model === model),
    );
    await provider.shutdown();
  }
});
