import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type TestApp, testApp, until } from "../../../../test/harness.ts";
import { chatAnswer, pretendServing } from "../../../../test/pretend_replica.ts";
import { DAY_MS } from "../../../lib/units.ts";
import { runResponses } from "./background.ts";
import { createResponseTranslator } from "./events.ts";
import { inputItems } from "./routes.ts";
import { ResponsesRequest } from "./schema.ts";
import { prune } from "./service.ts";
import { blankResponse, toChat, toMessages } from "./translate.ts";

// biome-ignore lint/suspicious/noExplicitAny: a test reads whatever was answered
type Json = any;
let app: TestApp;
const prompts: Json[] = [];
let slow: Promise<void> | undefined;
beforeAll(async () => {
  app = testApp({ loops: ["responses.run"] });
  const { body } = await app.call("POST", "/v1/deployments", { model: "owner/x", name: "d" });
  const answer = async (_path: string, request: Json) => {
    prompts.push(request.messages);
    await slow;
    return chatAnswer(`answer ${prompts.length}`);
  };
  pretendServing(app, body.id, { parallel: 8, answer });
});
afterAll(() => app.close().then(app.remove));

const create = (fields: object) => app.call("POST", "/v1/responses", { model: "d", input: "hi", ...fields });

describe("a stored response", () => {
  test("is continued by previous_response_id, with all turns before it", async () => {
    const first = (await create({ input: "one", instructions: "Be brief." })).body;
    expect(first).toMatchObject({ object: "response", status: "completed", store: true, instructions: "Be brief." });
    const second = (await create({ input: "two", previous_response_id: first.id })).body;
    await create({ input: "three", previous_response_id: second.id });
    expect(prompts.at(-1).map(({ role, content }: Json) => [role, content])).toEqual([
      ["user", "one"],
      ["assistant", first.output[0].content[0].text],
      ["user", "two"],
      ["assistant", second.output[0].content[0].text],
      ["user", "three"],
    ]);
  });

  test("is found by the id of one of its items", async () => {
    const { output } = (await create({})).body;
    await create({
      input: [
        { type: "item_reference", id: output[0].id },
        { role: "user", content: "more" },
      ],
    });
    expect(prompts.at(-1)[0]).toMatchObject({ role: "assistant", content: output[0].content[0].text });
  });

  test("is read, listed by its items and deleted; then it cannot be continued", async () => {
    const { id } = (await create({ metadata: { a: "b" } })).body;
    expect((await app.call("GET", `/v1/responses/${id}`)).body).toMatchObject({ id, metadata: { a: "b" } });
    expect((await app.call("GET", `/v1/responses/${id}/input_items`)).body.data).toMatchObject([{ content: "hi" }]);
    expect((await app.call("DELETE", `/v1/responses/${id}`)).body).toEqual({ id, object: "response", deleted: true });
    expect((await app.call("GET", `/v1/responses/${id}`)).status).toBe(404);
    const next = await create({ previous_response_id: id });
    expect(next).toMatchObject({ status: 400, body: { error: { param: "/previous_response_id" } } });
  });

  test("belongs to its workspace", async () => {
    const { id } = (await create({})).body;
    expect((await app.call("GET", `/v1/responses/${id}`, undefined, { key: app.keyB })).status).toBe(404);
  });

  test("is not kept with store: false, and is removed by age", async () => {
    const { id } = (await create({ store: false })).body;
    expect((await app.call("GET", `/v1/responses/${id}`)).status).toBe(404);
    const kept = (await create({})).body.id;
    await prune(app.ctx, app.ctx.clock.now() - DAY_MS);
    expect((await app.call("GET", `/v1/responses/${kept}`)).status).toBe(200);
    await prune(app.ctx, app.ctx.clock.now() + 1);
    expect((await app.call("GET", `/v1/responses/${kept}`)).status).toBe(404);
  });
});

describe("a background response", () => {
  const statusOf = async (id: string) => (await app.call("GET", `/v1/responses/${id}`)).body.status;

  test("is queued at once, and completed later", async () => {
    const { id, status } = (await create({ background: true })).body;
    expect(status).toBe("queued");
    await until("the response", async () => (await statusOf(id)) === "completed");
    expect((await app.call("GET", `/v1/responses/${id}`)).body.output[0].content[0].text).toStartWith("answer");
  });

  test("is cancelled while the model works", async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    slow = promise;
    const { id } = (await create({ background: true })).body;
    await until("its start", async () => (await statusOf(id)) === "in_progress");
    expect((await app.call("POST", `/v1/responses/${id}/cancel`)).body.status).toBe("cancelled");
    slow = undefined;
    resolve();
    await until("the end of the work", () => app.ctx.state.responses.running.size === 0);
    expect(await statusOf(id)).toBe("cancelled");
  });

  test("of an unknown model is refused at once", async () => {
    expect((await create({ background: true, model: "none" })).body.error.code).toBe("model_not_found");
  });
});

test("a server that closes leaves a background response due, and its loop ends", async () => {
  const other = testApp();
  const { body } = await other.call("POST", "/v1/deployments", { model: "owner/x", name: "d" });
  pretendServing(other, body.id, { parallel: 1, answer: async () => chatAnswer("late") });
  const { id } = (await other.call("POST", "/v1/responses", { model: "d", input: "hi", background: true })).body;
  await runResponses({ ...other.ctx, closing: AbortSignal.abort() }, new AbortController().signal);
  expect((await other.call("GET", `/v1/responses/${id}`)).body.status).toBe("queued");
  await other.close().then(other.remove);
});

test.each([
  [{ background: true, store: false }, "/store"],
  [{ tools: [{ type: "function" }] }, "/tools/0/name"],
  [{ input: [{ type: "compaction", encrypted_content: "x" }] }, "/input/0/encrypted_content"],
  [{ input: [{ role: "user", content: [{ type: "input_file", file_id: "x" }] }] }, "/input/0/content/0/type"],
  [
    { input: [{ role: "user", content: [{ type: "input_image", image_url: "data:," }] }] },
    "/messages/0/content/0/image_url/url",
  ],
  [{ input: [{ type: "item_reference", id: "msg_1" }] }, "/input/0/id"],
])("%j is refused", async (fields, param) => {
  expect(await create(fields)).toMatchObject({ status: 400, body: { error: { param } } });
});

test("tools of other kinds are dropped and named, and a choice of one of them is auto", async () => {
  const f = { type: "function", name: "f", parameters: { type: "object" } };
  const tools = [f, { type: "namespace", name: "n", tools: [] }, { type: "web_search" }];
  const { headers, body } = await create({ tools, tool_choice: { type: "web_search" } });
  expect(headers.get("warning")).toContain("tool namespace at /tools/1; tool web_search at /tools/2");
  expect([body.tools, body.tool_choice]).toEqual([[f], "auto"]);
});

test("a custom tool is offered, its call is read again, and allowed_tools choose among tools", async () => {
  const custom = { type: "custom" as const, name: "patch", description: "Edits.", format: { type: "text" as const } };
  const other = { type: "function" as const, name: "f" };
  const choice = {
    type: "allowed_tools" as const,
    mode: "required" as const,
    tools: [{ type: "custom", name: "patch" }],
  };
  const request = ResponsesRequest.parse({ model: "d", input: "hi", tools: [custom, other], tool_choice: choice });
  const fields = toChat(request, [
    { type: "custom_tool_call", call_id: "c", name: "patch", input: "a b" },
    { type: "custom_tool_call_output", call_id: "c", output: "done" },
  ]);
  expect(fields.tools?.[0]).toMatchObject({ type: "custom", custom: { name: "patch", format: { type: "text" } } });
  expect(fields.tool_choice).toMatchObject({
    allowed_tools: { mode: "required", tools: [{ custom: { name: "patch" } }] },
  });
  expect(fields.messages).toMatchObject([
    { role: "assistant", tool_calls: [{ id: "c", type: "custom", custom: { name: "patch", input: "a b" } }] },
    { role: "tool", tool_call_id: "c", content: "done" },
  ]);
  const blank = blankResponse({ id: "resp_x", createdAt: 0, model: "d", request }, "in_progress");
  const call = { index: 0, id: "c", type: "custom", custom: { name: "patch", input: "a b" } };
  const translator = createResponseTranslator(blank, async () => {});
  const text = translator.chunk({
    choices: [{ index: 0, delta: { tool_calls: [call] }, finish_reason: "tool_calls" }],
  } as never);
  const types = [...(text + (await translator.end())).matchAll(/^event: response\.(.*)$/gm)].map(([, type]) => type);
  expect(types.slice(2)).toEqual([
    "output_item.added",
    "custom_tool_call_input.delta",
    "custom_tool_call_input.done",
    "output_item.done",
    "completed",
  ]);
});

const streamed = async (method: string, path: string, body?: object): Promise<Json[]> => {
  const headers = { authorization: `Bearer ${app.keyA}`, "content-type": "application/json" };
  const init = { method, headers, ...(body ? { body: JSON.stringify(body) } : {}) };
  const text = await (await app.handle(new Request(`http://localhost${path}`, init))).text();
  return [...text.matchAll(/^data: (.*)$/gm)].map(([, json]) => JSON.parse(json as string));
};

test("a stored response is streamed again, also from an event on; a background one is followed to its end", async () => {
  const { id, output } = (await create({})).body;
  const events = await streamed("GET", `/v1/responses/${id}?stream=true`);
  expect(events.map(({ sequence_number: n }) => n)).toEqual(events.map((_, i) => i));
  expect([events[0].type, events.at(-1).type, events.at(-1).response.output]).toEqual([
    "response.created",
    "response.completed",
    output,
  ]);
  const rest = await streamed("GET", `/v1/responses/${id}?stream=true&starting_after=3`);
  expect(rest).toEqual(events.slice(4));
  const gate = Promise.withResolvers<void>();
  slow = gate.promise;
  const before = prompts.length;
  const following = streamed("POST", "/v1/responses", { model: "d", input: "late", background: true, stream: true });
  await until("the work to begin", () => prompts.length > before);
  gate.resolve();
  slow = undefined;
  const all = await following;
  expect([all[0].response.status, all.at(-1).type, all.at(-1).response.background]).toEqual([
    "in_progress",
    "response.completed",
    true,
  ]);
});

test("a conversation is compacted to one item, which only its workspace can send back", async () => {
  const first = (await create({ input: "one" })).body;
  const { body } = await app.call("POST", "/v1/responses/compact", { model: "d", previous_response_id: first.id });
  expect(body).toMatchObject({ object: "response.compaction", output: [{ type: "compaction" }] });
  const summary = `answer ${prompts.length}`;
  await create({ input: [...body.output, { role: "user", content: "two" }] });
  expect(prompts.at(-1)).toMatchObject([
    { role: "user", content: expect.stringContaining(summary) },
    { content: "two" },
  ]);
  const foreign = await app.call("POST", "/v1/responses", { model: "d", input: body.output }, { key: app.keyB });
  expect(foreign.status).toBe(400);
});

test("a nested field without effect is named", async () => {
  const { headers } = await create({ text: { verbosity: "low" }, truncation: "auto" });
  expect(headers.get("warning")).toContain("/text/verbosity");
  expect(headers.get("warning")).toContain("/truncation");
});

test("thoughts, text and calls of one answer are one message of a chat", () => {
  const call = { type: "function_call" as const, name: "f", arguments: "{}" };
  const messages = toMessages([
    { role: "user", content: "q" },
    { type: "reasoning", content: [{ type: "reasoning_text", text: "hm" }] },
    { role: "assistant", content: [{ type: "output_text", text: "t" }] },
    { ...call, call_id: "a" },
    { ...call, call_id: "b" },
    { type: "function_call_output", call_id: "a", output: "1" },
    { role: "assistant", content: "end" },
  ]);
  expect(messages.map(({ role }) => role)).toEqual(["user", "assistant", "tool", "assistant"]);
  expect(messages[1]).toMatchObject({ content: "t", reasoning_content: "hm", tool_calls: [{ id: "a" }, { id: "b" }] });
});

test("a page of input items begins after the last one of the page before", () => {
  const input = ["a", "b", "c"].map((content) => ({ role: "user" as const, content }));
  const first = inputItems({ id: "resp_x", input }, { limit: 2, order: "asc", after: undefined });
  expect(first).toMatchObject({ data: [{ content: "a" }, { content: "b" }], has_more: true });
  const rest = inputItems({ id: "resp_x", input }, { limit: 2, order: "asc", after: first.last_id ?? "" });
  expect(rest).toMatchObject({ data: [{ content: "c" }], has_more: false });
  expect(() => inputItems({ id: "resp_x", input }, { limit: 2, order: "asc", after: "in_y_0" })).toThrow("after");
});

test("a stream has the events of OpenAI in their order, and its end has the whole response", async () => {
  const request = ResponsesRequest.parse({ model: "d", input: "hi", stream: true });
  const blank = blankResponse({ id: "resp_x", createdAt: 0, model: "d", request }, "in_progress");
  const stored: Json[] = [];
  const translator = createResponseTranslator(blank, async (response) => void stored.push(response));
  const delta = (fields: object, finish_reason: string | null = null) =>
    translator.chunk({ choices: [{ index: 0, delta: fields, finish_reason }] } as never);
  const text = [
    delta({ reasoning_content: "hm" }),
    delta({ content: "a" }),
    delta({ content: "b" }),
    delta({ tool_calls: [{ index: 0, id: "c", function: { name: "f", arguments: "{" } }] }),
    delta({ tool_calls: [{ index: 0, function: { arguments: "}" } }] }, "tool_calls"),
    await translator.end(),
  ].join("");
  const events = [...text.matchAll(/^data: (.*)$/gm)].map(([, json]) => JSON.parse(json as string));
  expect(events.map(({ sequence_number }) => sequence_number)).toEqual(events.map((_, i) => i));
  const ofText = ["output_item.added", "content_part.added"];
  const ofEnd = ["content_part.done", "output_item.done"];
  expect(events.map(({ type }) => type.replace("response.", ""))).toEqual([
    ...["created", "in_progress", ...ofText, "reasoning_text.delta", "reasoning_text.done", ...ofEnd],
    ...[...ofText, "output_text.delta", "output_text.delta", "output_text.done", ...ofEnd],
    ...["output_item.added", "function_call_arguments.delta", "function_call_arguments.delta"],
    ...["function_call_arguments.done", "output_item.done", "completed"],
  ]);
  const { response } = events.at(-1);
  expect(response.output).toMatchObject([
    { type: "reasoning", id: "rs_x_0", content: [{ text: "hm" }] },
    { type: "message", id: "msg_x_1", content: [{ text: "ab" }] },
    { type: "function_call", id: "fc_x_2", call_id: "c", arguments: "{}", status: "completed" },
  ]);
  expect(stored).toEqual([response]);
});
