import { afterAll, beforeAll, expect, test } from "bun:test";
import { type TestApp, testApp } from "../../../../test/harness.ts";
import { chatAnswer, pretendServing } from "../../../../test/pretend_replica.ts";
import { usedBytes } from "../../data/storage_usage/service.ts";
import { createCollector } from "./collect.ts";
import { prune } from "./service.ts";

// biome-ignore lint/suspicious/noExplicitAny: a test reads whatever was answered
type Json = any;
let app: TestApp;
let count = 0;
beforeAll(async () => {
  app = testApp({ flags: { "quotas.chat_bytes": 100_000 } });
  const { body } = await app.call("POST", "/v1/deployments", { model: "owner/x", name: "d" });
  const answer = async () => ({ ...chatAnswer(`answer ${++count}`), id: `chatcmpl-${count}` });
  pretendServing(app, body.id, { parallel: 8, answer });
});
afterAll(() => app.close().then(app.remove));

const PATH = "/v1/chat/completions";
const messages = [
  { role: "system", content: "Be brief." },
  {
    role: "user",
    content: [
      { type: "text", text: "hi" },
      { type: "text", text: " there" },
    ],
  },
];
const chat = (fields: object = {}) => app.call("POST", PATH, { model: "d", messages, store: true, ...fields });
const ids = async (query: string): Promise<string[]> =>
  (await app.call("GET", `${PATH}?${query}`)).body.data.map(({ id }: Json) => id);

test("a chat with store: true is stored as it was answered, with its settings and messages", async () => {
  const { body, headers } = await chat({ temperature: 0.5, metadata: { topic: "demo" } });
  const { id } = body;
  const stored = (await app.call("GET", `${PATH}/${id}`)).body;
  expect(stored).toMatchObject({ ...body, temperature: 0.5, tools: null, metadata: { topic: "demo" } });
  expect(stored.request_id).toBe(headers.get("x-request-id"));
  const listed = (await app.call("GET", `${PATH}/${id}/messages`)).body;
  expect(listed).toMatchObject({ first_id: `${id}-0`, last_id: `${id}-1`, has_more: false });
  expect(listed.data).toMatchObject([
    { role: "system", content: "Be brief.", content_parts: null, name: null },
    { role: "user", content: "hi there", content_parts: messages[1]?.content },
  ]);
  const reversed = (await app.call("GET", `${PATH}/${id}/messages?order=desc&limit=1`)).body;
  expect([reversed.data[0].id, reversed.has_more]).toEqual([`${id}-1`, true]);
  const changed = await app.call("POST", `${PATH}/${id}`, { metadata: { topic: "other" } });
  expect(changed.body.metadata).toEqual({ topic: "other" });
  expect((await app.call("GET", `${PATH}/${id}`, undefined, { key: app.keyB })).status).toBe(404);
  expect((await app.call("DELETE", `${PATH}/${id}`)).body).toEqual({
    id,
    object: "chat.completion.deleted",
    deleted: true,
  });
  expect((await app.call("GET", `${PATH}/${id}`)).status).toBe(404);
});

test("other chats are not stored", async () => {
  for (const store of [false, null, undefined]) {
    const { body } = await chat({ store });
    expect((await app.call("GET", `${PATH}/${body.id}`)).status).toBe(404);
  }
});

test("lists are filtered by model and by every pair of metadata, and go on after an id in both orders", async () => {
  const made: string[] = [];
  for (const metadata of [{ kind: "a" }, { kind: "b" }, { kind: "a", who: "me" }])
    made.push((await chat({ metadata })).body.id);
  const [first, second, third] = made as [string, string, string];
  expect(await ids("metadata%5Bkind%5D=a")).toEqual([first, third]);
  expect(await ids("metadata[kind]=a&metadata[who]=me&order=desc")).toEqual([third]);
  expect(await ids("metadata[toString]=x")).toEqual([]);
  expect([await ids("model=none"), await ids("model=d")]).toEqual([[], made]);
  const page = (await app.call("GET", `${PATH}?limit=2`)).body;
  expect(page).toMatchObject({ first_id: first, last_id: second, has_more: true });
  expect([await ids(`after=${second}`), await ids(`after=${second}&order=desc`)]).toEqual([[third], [first]]);
  const { headers } = await app.call("GET", `${PATH}?metadata[kind]=a&kind=a`);
  expect(headers.get("warning")).toBe('299 verk "ignored: unknown query parameter kind"');
});

test("metadata of a stored chat are texts, and a full quota refuses the chat before it is answered", async () => {
  const wrong = await chat({ metadata: { n: 1 } });
  expect([wrong.status, wrong.body.error.param]).toEqual([400, "/metadata/n"]);
  expect((await chat({ metadata: { n: 1 }, store: false })).status).toBe(200);
  const long = await chat({ messages: [{ role: "user", content: "x".repeat(100_000) }] });
  expect([long.status, long.body.error.message]).toEqual([400, expect.stringContaining("quotas.chat_bytes")]);
  await prune(app.ctx, app.ctx.clock.now() + 1);
  expect([await ids(""), usedBytes(app.ctx.db, { workspaceId: app.workspaceA, kind: "chats" })]).toEqual([[], 0]);
});

test("a streamed answer is put together from its chunks", () => {
  const collector = createCollector();
  const head = { id: "c", created: 1, model: "d", object: "chat.completion.chunk" as const };
  const add = (delta: Json, end: Json = null, index = 0) =>
    collector.add({ ...head, choices: [{ index, delta, finish_reason: end, logprobs: null }] });
  add({ role: "assistant", content: "" });
  add({ reasoning_content: "hm" });
  add({ content: "a" });
  add({ content: "b" }, "stop");
  add({ tool_calls: [{ index: 0, id: "1", type: "function", function: { name: "f", arguments: "" } }] }, null, 1);
  add({ tool_calls: [{ index: 0, function: { arguments: "{}" } }] }, "tool_calls", 1);
  const usage = { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 };
  collector.add({ ...head, choices: [], usage });
  expect(collector.whole()).toEqual({
    id: "c",
    created: 1,
    model: "d",
    system_fingerprint: undefined,
    object: "chat.completion",
    usage,
    choices: [
      {
        index: 0,
        message: { role: "assistant", content: "ab", refusal: null, reasoning_content: "hm" },
        logprobs: null,
        finish_reason: "stop",
      },
      {
        index: 1,
        message: {
          role: "assistant",
          content: null,
          refusal: null,
          tool_calls: [{ id: "1", type: "function", function: { name: "f", arguments: "{}" } }],
        },
        logprobs: null,
        finish_reason: "tool_calls",
      },
    ],
  });
});
