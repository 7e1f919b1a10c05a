// tier: all (serves a model)
/** Conversations and stored chats with the `openai` client and the SDK for agents, unchanged, against the executable. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import { Agent, OpenAIConversationsSession, OpenAIProvider, Runner } from "@openai/agents";
import OpenAI from "openai";
import { tempDir, until } from "../harness.ts";
import { recordedModel } from "./recorded_model.ts";
import { startServing } from "./served.ts";

let server: Awaited<ReturnType<typeof startServing>>;
let openai: OpenAI;
let folder: string;
const base = { model: "demo", max_output_tokens: 8, temperature: 0 };
const chat = { model: "demo", max_tokens: 8, temperature: 0, store: true };
const MESSAGES: OpenAI.ChatCompletionMessageParam[] = [{ role: "user", content: "Tell me something." }];
const ANSWERS = ["This is one answer.", "Here comes another.", "Now a third, later.", "The last of them all."];
const refusalOf = (call: PromiseLike<unknown>) => Promise.resolve(call).catch((error: unknown) => error);

beforeAll(async () => {
  folder = tempDir();
  const files = { recorded: recordedModel(folder, ANSWERS, 4096) };
  server = await startServing({ files });
  await server.deploy({ model: "recorded", name: "demo", parallel: 4, context_length: 2048, capture: "metadata" });
  openai = new OpenAI({ apiKey: server.key, baseURL: `${server.url}/v1`, maxRetries: 0 });
}, 120_000);
afterAll(async () => {
  await server?.stop();
  if (folder) rmSync(folder, { recursive: true });
});

test("openai: a conversation is made, changed, read item by item, and deleted", async () => {
  const empty = await openai.conversations.create();
  expect(empty).toMatchObject({ object: "conversation", metadata: {} });
  const items = ["a", "b", "c"].map((content) => ({ role: "user" as const, content }));
  const { id } = await openai.conversations.create({ items, metadata: { topic: "demo" } });
  expect((await openai.conversations.update(id, { metadata: { topic: "other" } })).metadata).toEqual({
    topic: "other",
  });
  const added = await openai.conversations.items.create(id, { items: [{ role: "assistant", content: "d" }] });
  const last = added.data[0] as OpenAI.Conversations.ConversationItem & { id: string };
  expect([added.has_more, added.first_id]).toEqual([false, last.id]);
  const seen: unknown[] = [];
  for await (const item of openai.conversations.items.list(id, { limit: 2, order: "asc" }))
    if (item.type === "message") seen.push(item.content[0]);
  expect(seen).toMatchObject([{ text: "a" }, { text: "b" }, { text: "c" }, { type: "output_text", text: "d" }]);
  const at = { conversation_id: id };
  expect(await openai.conversations.items.retrieve(last.id, at)).toEqual(last as never);
  expect((await openai.conversations.items.delete(last.id, at)).id).toBe(id);
  expect(await openai.conversations.delete(id)).toEqual({ id, object: "conversation.deleted", deleted: true });
  expect(await refusalOf(openai.conversations.retrieve(id))).toBeInstanceOf(OpenAI.NotFoundError);
});

test("openai: responses go on in a conversation, whole, streamed and in the background", async () => {
  const { id } = await openai.conversations.create({ items: [{ role: "user", content: "My name is Ada." }] });
  const first = await openai.responses.create({ ...base, input: "Hello.", conversation: id });
  expect(first.conversation).toEqual({ id });
  let done: OpenAI.Responses.Response | undefined;
  for await (const event of await openai.responses.create({
    ...base,
    input: "More.",
    conversation: { id },
    stream: true,
  }))
    if (event.type === "response.completed" || event.type === "response.incomplete") done = event.response;
  expect(done?.usage?.input_tokens as number).toBeGreaterThan(first.usage?.input_tokens as number);
  const late = await openai.responses.create({ ...base, input: "Late.", conversation: id, background: true });
  const isOver = async () =>
    !["queued", "in_progress"].includes((await openai.responses.retrieve(late.id)).status ?? "");
  await until("the response", isOver, 60_000);
  const { data } = await openai.conversations.items.list(id, { order: "asc", limit: 100 });
  expect(data.map((item): string => (item.type === "message" ? item.role : item.type))).toEqual([
    ...["user", "user", "assistant", "user", "assistant", "user", "assistant"],
  ]);
  expect(data[2]?.id).toBe(first.output[0]?.id as string);
  const both = { ...base, input: "x", conversation: id, previous_response_id: first.id };
  expect(await refusalOf(openai.responses.create(both))).toMatchObject({ status: 400, param: "/previous_response_id" });
  // a background response has no trace
  expect(await server.get(`/v1/traces/conversations/${id}`)).toMatchObject({
    object: "trace.conversation",
    trace_count: 2,
  });
});

test("openai: a chat with store: true is listed, read, changed and deleted; a stream is stored whole", async () => {
  const whole = await openai.chat.completions.create({ ...chat, messages: MESSAGES, metadata: { way: "whole" } });
  const stream = await openai.chat.completions.create({
    ...chat,
    messages: MESSAGES,
    metadata: { way: "stream" },
    stream: true,
  });
  let text = "";
  let usages = 0;
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta.content ?? "";
    if (chunk.usage) usages++;
  }
  expect([text, usages]).toEqual([whole.choices[0]?.message.content ?? "", 0]); // no usage was asked for
  const listed: string[] = [];
  for await (const { id } of openai.chat.completions.list({ limit: 1 })) listed.push(id);
  expect([listed.length, listed[0]]).toEqual([2, whole.id]);
  const [streamed] = (await openai.chat.completions.list({ metadata: { way: "stream" } })).data;
  expect(streamed).toMatchObject({
    id: listed[1] as string,
    choices: whole.choices.map(({ message }) => ({ message })),
  });
  expect(streamed?.usage?.completion_tokens).toBe(whole.usage?.completion_tokens as number);
  expect(await openai.chat.completions.retrieve(whole.id)).toMatchObject({
    ...whole,
    metadata: { way: "whole" },
  } as never);
  const [message] = (await openai.chat.completions.messages.list(whole.id)).data;
  expect(message).toMatchObject({ id: `${whole.id}-0`, role: "user", content: "Tell me something." } as never);
  await openai.chat.completions.update(whole.id, { metadata: { way: "other" } });
  expect((await openai.chat.completions.list({ metadata: { way: "whole" } })).data).toEqual([]);
  expect((await openai.chat.completions.delete(whole.id)).deleted).toBe(true);
  expect(await refusalOf(openai.chat.completions.retrieve(whole.id))).toBeInstanceOf(OpenAI.NotFoundError);
});

test("@openai/agents: a session keeps its turns in a conversation", async () => {
  const session = new OpenAIConversationsSession({ apiKey: server.key, baseURL: `${server.url}/v1` });
  const modelProvider = new OpenAIProvider({ apiKey: server.key, baseURL: `${server.url}/v1`, useResponses: true });
  const runner = new Runner({ modelProvider, tracingDisabled: true });
  const agent = new Agent({ name: "Talker", model: "demo" });
  for (const said of ["One.", "Two."]) await runner.run(agent, said, { session });
  const items = await session.getItems();
  expect(items.map((item) => ("role" in item ? item.role : item.type))).toEqual([
    "user",
    "assistant",
    "user",
    "assistant",
  ]);
  expect((await session.popItem()) as object).toMatchObject({ role: "assistant" });
  expect(await session.getItems(1)).toMatchObject([{ role: "user" }]);
  await session.clearSession();
});

test("openai: transcriptions and translations say why no model here can make them", async () => {
  const file = new File(["RIFF"], "a.wav");
  for (const call of [
    openai.audio.transcriptions.create({ file, model: "whisper-1" }),
    openai.audio.translations.create({ file, model: "whisper-1" }),
  ]) {
    const refusal = await refusalOf(call);
    expect(refusal).toBeInstanceOf(OpenAI.NotFoundError);
    expect(refusal).toMatchObject({ code: "model_not_found", message: expect.stringContaining("hears audio") });
  }
});
