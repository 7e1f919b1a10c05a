// tier: all (serves models)
/** Tests common clients, unchanged, against the executable. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { HumanMessage, SystemMessage } from "@langchain/core/messages";
import { tool as langchainTool } from "@langchain/core/tools";
import { ChatOpenAI, OpenAIEmbeddings } from "@langchain/openai";
import { embed, generateText, jsonSchema, streamText, tool } from "ai";
import OpenAI from "openai";
import { z } from "zod";
import { runVerk } from "../cli.ts";
import { tempDir, until } from "../harness.ts";
import { startServing } from "./served.ts";

let server: Awaited<ReturnType<typeof startServing>>;
let id: string;
let baseURL: string;
let openai: OpenAI;
const MODEL = "random";
const messages = [{ role: "user" as const, content: "Tell me something." }];

beforeAll(async () => {
  server = await startServing({ models: { random: { arch: "llama", type: "F32", context: 1024 } } });
  id = await server.deploy({ model: "random", name: MODEL, parallel: 4, context_length: 1024 });
  baseURL = `${server.url}/v1/deployments/${id}`;
  openai = new OpenAI({ apiKey: server.key, baseURL, maxRetries: 0 });
}, 120_000);
afterAll(() => server?.stop());

test("openai: chat with a system message, and the same seed gives the same text", async () => {
  const ask = (seed: number) =>
    openai.chat.completions.create({
      model: MODEL,
      messages: [{ role: "system", content: "Be brief." }, ...messages],
      max_tokens: 12,
      temperature: 1,
      seed,
    });
  const [first, second, other] = [await ask(7), await ask(7), await ask(8)];
  expect(first.object).toBe("chat.completion");
  expect(first.model).toBe(MODEL);
  expect(first.choices[0]?.message.role).toBe("assistant");
  expect(["stop", "length"]).toContain(first.choices[0]?.finish_reason as string);
  expect(first.usage?.total_tokens).toBe((first.usage?.prompt_tokens ?? 0) + (first.usage?.completion_tokens ?? 0));
  expect(second.choices[0]?.message.content).toBe(first.choices[0]?.message.content as string);
  expect(other.choices[0]?.message.content).not.toBe(first.choices[0]?.message.content as string);
});

test("openai: a stream has the same text as the whole answer, and its usage", async () => {
  const request = { model: MODEL, messages, max_tokens: 16, temperature: 0 };
  const whole = await openai.chat.completions.create(request);
  const stream = await openai.chat.completions.create({
    ...request,
    stream: true,
    stream_options: { include_usage: true },
  });
  let text = "";
  let usage: OpenAI.CompletionUsage | null | undefined;
  let finish: string | null | undefined;
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta.content ?? "";
    finish = chunk.choices[0]?.finish_reason ?? finish;
    usage = chunk.usage ?? usage;
  }
  expect(text).toBe(whole.choices[0]?.message.content as string);
  expect(finish).toBe(whole.choices[0]?.finish_reason);
  expect(usage?.completion_tokens).toBe(whole.usage?.completion_tokens as number);
});

test("openai: n answers, log probabilities, stop strings", async () => {
  const many = await openai.chat.completions.create({ model: MODEL, messages, n: 3, max_tokens: 8, seed: 1 });
  expect(many.choices.map((choice) => choice.index)).toEqual([0, 1, 2]);
  expect(new Set(many.choices.map((choice) => choice.message.content)).size).toBeGreaterThan(1);

  const scored = await openai.chat.completions.create({
    model: MODEL,
    messages,
    max_tokens: 5,
    temperature: 0,
    logprobs: true,
    top_logprobs: 3,
  });
  const content = scored.choices[0]?.logprobs?.content ?? [];
  expect(content).toHaveLength(scored.usage?.completion_tokens as number);
  for (const each of content) {
    expect(each.logprob).toBeLessThanOrEqual(0);
    expect(each.top_logprobs).toHaveLength(3);
    expect(each.top_logprobs[0]?.logprob).toBeCloseTo(each.logprob, 5); // greedy: the sampled one is the likeliest
  }

  const free = await openai.chat.completions.create({ model: MODEL, messages, max_tokens: 24, temperature: 0 });
  const text = free.choices[0]?.message.content ?? "";
  const stop = text.slice(5, 7);
  const stopped = await openai.chat.completions.create({
    model: MODEL,
    messages,
    max_tokens: 24,
    temperature: 0,
    stop,
  });
  expect(stopped.choices[0]?.message.content).toBe(text.slice(0, text.indexOf(stop)));
  expect(stopped.choices[0]?.finish_reason).toBe("stop");
});

test("openai: json_schema and json_object are kept, by random weights too", async () => {
  const schema = {
    type: "object",
    properties: { colour: { enum: ["red", "green"] }, count: { type: "integer", minimum: 1, maximum: 3 } },
    required: ["colour", "count"],
    additionalProperties: false,
  };
  for (const seed of [1, 2, 3]) {
    const { choices } = await openai.chat.completions.create({
      model: MODEL,
      messages,
      seed,
      response_format: { type: "json_schema", json_schema: { name: "thing", strict: true, schema } },
    });
    const value = JSON.parse(choices[0]?.message.content ?? "");
    expect(["red", "green"]).toContain(value.colour);
    expect([1, 2, 3]).toContain(value.count);
  }
});

test("openai: a required tool is called with arguments that fit", async () => {
  const parameters = {
    type: "object",
    properties: { city: { enum: ["Oslo", "Bergen"] } },
    required: ["city"],
    additionalProperties: false,
  };
  const { choices } = await openai.chat.completions.create({
    model: MODEL,
    messages,
    tools: [{ type: "function", function: { name: "get_weather", parameters } }],
    tool_choice: "required",
    parallel_tool_calls: false,
  });
  const call = choices[0]?.message.tool_calls?.[0];
  expect(choices[0]?.finish_reason).toBe("tool_calls");
  if (call?.type !== "function") throw new Error("no call");
  expect(call.function.name).toBe("get_weather");
  expect(["Oslo", "Bergen"]).toContain(JSON.parse(call.function.arguments).city);
  const answered = await openai.chat.completions.create({
    model: MODEL,
    messages: [
      ...messages,
      { role: "assistant", tool_calls: [call] },
      { role: "tool", tool_call_id: call.id, content: "rain" },
    ],
    max_tokens: 4,
  });
  expect(answered.choices).toHaveLength(1);
});

test("openai: embeddings are of length one, in order, as floats and as base64", async () => {
  const { data } = await openai.embeddings.create({ model: MODEL, input: ["one", "two", "one"] });
  expect(data.map((each) => each.index)).toEqual([0, 1, 2]);
  const [first, second, third] = data.map((each) => each.embedding) as [number[], number[], number[]];
  expect(Math.hypot(...first)).toBeCloseTo(1, 3);
  const dot = (a: number[], b: number[]) => a.reduce((sum, value, i) => sum + value * (b[i] ?? 0), 0);
  expect(dot(first, third)).toBeCloseTo(1, 4);
  expect(dot(first, second)).toBeLessThan(0.999);
});

test("openai: completions, the list of models, and errors in their own classes", async () => {
  const { choices } = await openai.completions.create({ model: MODEL, prompt: "Once", max_tokens: 4, echo: true });
  expect(choices[0]?.text).toStartWith("Once");
  expect((await openai.models.list()).data.map((model) => model.id)).toEqual([MODEL]);
  const wrong = async () => await openai.chat.completions.create({ model: "other", messages });
  await expect(wrong()).rejects.toBeInstanceOf(OpenAI.NotFoundError);
  const long = [{ role: "user" as const, content: "word ".repeat(2000) }];
  const overflow = async () => await openai.chat.completions.create({ model: MODEL, messages: long });
  await expect(overflow()).rejects.toBeInstanceOf(OpenAI.BadRequestError);
  await expect(overflow()).rejects.toThrow(/\d{4} tokens.*1024/);
  const stranger = new OpenAI({ apiKey: "vk_nobody", baseURL, maxRetries: 0 });
  await expect((async () => await stranger.models.list())()).rejects.toBeInstanceOf(OpenAI.AuthenticationError);
});

test("openai: aborting a stream ends its run before the answer does", async () => {
  const request = { model: MODEL, messages, stream: true as const, temperature: 0 }; // greedy, it does not end by itself
  const stream = await openai.chat.completions.create(request);
  for await (const _ of stream) break; // breaking off aborts the request
  const left = await until("its record", async () => {
    const { data } = await server.get(`/v1/deployments/${id}/requests?limit=1`);
    return data[0]?.status_code === 499 ? data[0] : undefined;
  });
  expect(left.deployment_id).toBe(id);
});

test("openai: the workspace's own address finds the deployment by its name", async () => {
  const client = new OpenAI({ apiKey: server.key, baseURL: `${server.url}/v1`, maxRetries: 0 });
  const { choices } = await client.chat.completions.create({ model: MODEL, messages, max_tokens: 2 });
  expect(choices).toHaveLength(1);
});

test("openai: an agent is a listed model that answers, streams and calls its tools, and traces name its version", async () => {
  const client = new OpenAI({ apiKey: server.key, baseURL: `${server.url}/v1`, maxRetries: 0 });
  const parameters = { type: "object", properties: { city: { enum: ["Oslo"] } }, required: ["city"] };
  const tools = [{ type: "function", function: { name: "get_weather", parameters } }];
  const make = async (json: object) =>
    (await server.call("POST", "/v1/agents", { name: "helper", deployment: MODEL, ...json })).body;
  await make({ tools, sampling: { tool_choice: "required", parallel_tool_calls: false } });
  const agent = await make({ system_prompt: "Be brief.", sampling: { max_completion_tokens: 8, temperature: 0 } });

  const { data } = await client.models.list();
  expect(data.map((model) => model.id)).toEqual([MODEL, "helper"]);
  for (const { id: model } of data)
    expect((await client.chat.completions.create({ model, messages, max_tokens: 1 })).choices).toHaveLength(1);

  const whole = await client.chat.completions.create({ model: "helper", messages });
  expect([whole.model, whole.usage?.completion_tokens]).toEqual(["helper@2", 8]);
  const system = { role: "system" as const, content: "Be brief." };
  const written = { model: MODEL, messages: [system, ...messages], max_tokens: 8, temperature: 0 };
  const text = whole.choices[0]?.message.content as string;
  expect((await client.chat.completions.create(written)).choices[0]?.message.content).toBe(text);
  let streamed = "";
  for await (const chunk of await client.chat.completions.create({ model: agent.id, messages, stream: true }))
    streamed += chunk.choices[0]?.delta.content ?? "";
  expect(streamed).toBe(text);

  const toolRequest = { model: "helper@1", messages };
  const call = (await client.chat.completions.create(toolRequest)).choices[0]?.message.tool_calls?.[0];
  expect(call).toMatchObject({ function: { name: "get_weather" } });
  const final = await client.chat.completions.stream(toolRequest).finalChatCompletion();
  expect(final.choices[0]?.message.tool_calls?.[0]).toMatchObject({ function: { name: "get_weather" } });

  const traces = (await server.get(`/v1/traces?deployment_id=${id}&limit=4`)).data;
  const named = traces.map((trace: Record<string, unknown>) => [
    trace["agent_id"] === agent.id,
    trace["agent_version"],
  ]);
  expect(named).toEqual([
    [false, 1],
    [false, 1],
    [true, 2],
    [false, null],
  ]);

  const env = { VERK_URL: server.url, VERK_API_KEY: server.key };
  const said = await runVerk(["chat", "helper", "-m", "Tell me something."], { cwd: tempDir(), env });
  expect([said.code, said.out.trim()]).toEqual([0, text.trim()]);
});

test("the AI SDK: text, stream, tools, embeddings", async () => {
  const provider = createOpenAICompatible({ name: "verk", apiKey: server.key, baseURL, includeUsage: true });
  const model = provider(MODEL);
  const plain = await generateText({ model, prompt: "Say it.", maxOutputTokens: 8, temperature: 0, maxRetries: 0 });
  expect(plain.usage.outputTokens).toBeGreaterThan(0);
  const stream = streamText({ model, prompt: "Say it.", maxOutputTokens: 8, temperature: 0, maxRetries: 0 });
  let text = "";
  for await (const part of stream.textStream) text += part;
  expect(text).toBe(plain.text);
  const schema = jsonSchema<{ city: string }>({
    type: "object",
    properties: { city: { type: "string", enum: ["Oslo"] } },
    required: ["city"],
    additionalProperties: false,
  });
  const called = await generateText({
    model,
    prompt: "Weather?",
    tools: { get_weather: tool({ inputSchema: schema }) },
    toolChoice: "required",
    maxRetries: 0,
  });
  expect(called.toolCalls[0]).toMatchObject({ toolName: "get_weather", input: { city: "Oslo" } });
  const { embedding } = await embed({ model: provider.embeddingModel(MODEL), value: "one", maxRetries: 0 });
  expect(Math.hypot(...embedding)).toBeCloseTo(1, 3);
});

test("LangChain: invoke, stream, bound tools, embeddings", async () => {
  const options = { model: MODEL, apiKey: server.key, configuration: { baseURL }, maxRetries: 0 };
  const model = new ChatOpenAI({ ...options, temperature: 0, maxTokens: 8 });
  const conversation = [new SystemMessage("Be brief."), new HumanMessage("Say it.")];
  const whole = await model.invoke(conversation);
  let text = "";
  for await (const chunk of await model.stream(conversation)) text += chunk.content;
  expect(text).toBe(whole.content as string);
  expect(whole.usage_metadata).toMatchObject({ output_tokens: expect.any(Number) });
  const weather = langchainTool(() => "rain", {
    name: "get_weather",
    description: "The weather",
    schema: z.object({ city: z.enum(["Oslo"]) }),
  });
  const bound = new ChatOpenAI(options).bindTools([weather], { tool_choice: "required" });
  const { tool_calls } = await bound.invoke(conversation);
  expect(tool_calls?.[0]).toMatchObject({ name: "get_weather", args: { city: "Oslo" } });
  const embeddings = new OpenAIEmbeddings({ ...options });
  expect(Math.hypot(...(await embeddings.embedQuery("one")))).toBeCloseTo(1, 3);
});
