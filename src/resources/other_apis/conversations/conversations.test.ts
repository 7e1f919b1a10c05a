import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { type TestApp, testApp, until } from "../../../../test/harness.ts";
import { insert } from "../../../../test/insert_row.ts";
import { chatAnswer, pretendServing } from "../../../../test/pretend_replica.ts";
import { DAY_MS } from "../../../lib/units.ts";
import { usedBytes } from "../../data/storage_usage/service.ts";
import { prune } from "./prune.ts";

// biome-ignore lint/suspicious/noExplicitAny: a test reads whatever was answered
type Json = any;
let app: TestApp;
const prompts: Json[] = [];
let slow: Promise<void> | undefined;
beforeAll(async () => {
  app = testApp({ loops: ["responses.run"], flags: { "quotas.chat_bytes": 200_000 } });
  const { body } = await app.call("POST", "/v1/deployments", { model: "owner/x", name: "d" });
  const answer = async (_path: string, request: Json) => {
    prompts.push(request.messages);
    await slow;
    return chatAnswer(`answer ${prompts.length}`);
  };
  pretendServing(app, body.id, { parallel: 8, answer });
});
afterAll(() => app.close().then(app.remove));

const user = (content: string, more: object = {}) => ({ role: "user", content, ...more });
const make = async (fields?: object): Promise<Json> => (await app.call("POST", "/v1/conversations", fields)).body;
const items = async (id: string, query = "order=asc&limit=100"): Promise<Json[]> =>
  (await app.call("GET", `/v1/conversations/${id}/items?${query}`)).body.data;
const add = async (id: string, ...added: object[]): Promise<Json[]> =>
  (await app.call("POST", `/v1/conversations/${id}/items`, { items: added })).body.data;
const respond = (fields: object) => app.call("POST", "/v1/responses", { model: "d", input: "hi", ...fields });
const used = () => usedBytes(app.ctx.db, { workspaceId: app.workspaceA, kind: "chats" });
const texts = (list: Json[]) => list.map(({ content }) => content[0].text);

describe("a conversation", () => {
  test("is made without a body, named, changed and deleted", async () => {
    const made = await make();
    expect(made).toMatchObject({ object: "conversation", metadata: {}, name: null, item_count: 0 });
    const path = `/v1/conversations/${made.id}`;
    const changed = await app.call("POST", path, { name: "Plans", metadata: { topic: "demo" } });
    expect(changed.body).toMatchObject({ id: made.id, name: "Plans", metadata: { topic: "demo" } });
    const kept = await app.call("POST", path, { name: null });
    expect(kept.body).toMatchObject({ name: null, metadata: { topic: "demo" } });
    expect((await app.call("DELETE", path)).body).toEqual({
      id: made.id,
      object: "conversation.deleted",
      deleted: true,
    });
    const missing = (await app.call("GET", path)).body.error;
    expect(missing.message).toContain("/v1/traces/conversations");
  });

  test("is listed newest first, by its workspace alone", async () => {
    const [first, second] = [await make({ name: "first" }), await make({ name: "second" })];
    const page = (await app.call("GET", "/v1/conversations?limit=1")).body;
    expect(page).toMatchObject({ data: [second], first_id: second.id, last_id: second.id, has_more: true });
    expect((await app.call("GET", `/v1/conversations?limit=1&after=${second.id}`)).body.data).toEqual([first]);
    const foreign = { key: app.keyB };
    expect((await app.call("GET", "/v1/conversations", undefined, foreign)).body.data).toEqual([]);
    for (const path of ["", "/items"])
      expect((await app.call("GET", `/v1/conversations/${first.id}${path}`, undefined, foreign)).status).toBe(404);
    const sent = { model: "d", input: "hi", conversation: first.id };
    expect((await app.call("POST", "/v1/responses", sent, foreign)).body.error.param).toBe("/conversation");
  });

  test.each([
    [{ items: Array.from({ length: 21 }, () => user("x")) }, "/items"],
    [{ metadata: Object.fromEntries(Array.from({ length: 17 }, (_, i) => [`k${i}`, "v"])) }, "/metadata"],
    [{ items: [user("x", { parent_id: "msg_none" })] }, "/items/0/parent_id"],
    [{ items: [{ type: "item_reference", id: "msg_none" }] }, "/items/0/id"],
    [{ items: [{ type: "song" }] }, "/items/0/type"],
  ])("is not made of %j", async (fields, param) => {
    const { status, body } = await app.call("POST", "/v1/conversations", fields);
    expect([status, body.error.param]).toEqual([400, param]);
  });
});

describe("items", () => {
  test("have the parts of OpenAI, ids, and the fields of each kind", async () => {
    const call = { type: "function_call", call_id: "c", name: "f", arguments: "{}" };
    const { id } = await make({
      items: [
        user("hello"),
        { type: "reasoning", content: [{ type: "reasoning_text", text: "hm" }] },
        { role: "assistant", content: "hi", model: "other/model" },
        call,
        { type: "function_call_output", call_id: "c", output: "done" },
        user("", { content: [{ type: "input_image", image_url: "data:image/png;base64,AA" }] }),
      ],
    });
    const all = await items(id);
    expect(all).toMatchObject([
      { type: "message", role: "user", content: [{ type: "input_text", text: "hello" }], parent_id: null, model: null },
      { type: "reasoning", summary: [], content: [{ text: "hm" }] },
      { role: "assistant", content: [{ type: "output_text", annotations: [], logprobs: [] }], model: "other/model" },
      { ...call, status: "completed" },
      { type: "function_call_output", output: "done" },
      { content: [{ type: "input_image", detail: "auto", file_id: null }] },
    ]);
    expect(all.map((item) => item.id.split("_")[0])).toEqual(["msg", "rs", "msg", "fc", "fco", "msg"]);
    expect((await app.call("GET", `/v1/conversations/${id}/items/${all[2].id}`)).body).toEqual(all[2]);
  });

  test("come in pages in both orders", async () => {
    const { id } = await make({ items: ["a", "b", "c"].map((text) => user(text)) });
    const page = (await app.call("GET", `/v1/conversations/${id}/items?limit=2`)).body;
    expect([texts(page.data), page.has_more]).toEqual([["c", "b"], true]);
    expect(texts(await items(id, `after=${page.last_id}`))).toEqual(["a"]);
    expect(texts(await items(id, `order=asc&after=${page.last_id}`))).toEqual(["c"]);
    const wrong = await app.call("GET", `/v1/conversations/${id}/items?after=msg_none`);
    expect(wrong.body.error.code).toBe("invalid_cursor");
  });

  test("branch by parent_id; a deleted one leaves its place to its parent", async () => {
    const { id } = await make({ items: [user("one"), { role: "assistant", content: "two" }] });
    const [one, two] = await items(id);
    const [other] = await add(id, { role: "assistant", content: "other", parent_id: one.id });
    const [next] = await add(id, user("next"));
    expect([two.parent_id, other.parent_id, next.parent_id]).toEqual([one.id, one.id, other.id]);
    const { body } = await app.call("DELETE", `/v1/conversations/${id}/items/${other.id}`);
    expect(body).toMatchObject({ id, object: "conversation", item_count: 3 });
    expect((await items(id)).find((item) => item.id === next.id).parent_id).toBe(one.id);
  });

  test("a page ends early when its items are long, and says so", async () => {
    const { id } = await make();
    const item = JSON.stringify({ type: "message", status: "completed", content: [{ text: "x".repeat(3 << 20) }] });
    for (const at of [1, 2, 3])
      insert(app, "client_items", `msg_${at}`, 1, { conversation_id: id, position: at, item });
    const { body } = await app.call("GET", `/v1/conversations/${id}/items?limit=3`);
    expect([body.data.length, body.has_more]).toEqual([1, true]);
    app.ctx.db.$client.run("DELETE FROM client_items WHERE conversation_id = ?", [id]);
  });
});

describe("a response in a conversation", () => {
  const said = () => prompts.at(-1).map(({ content }: Json) => content);

  test("reads its items and adds its input and output, also with store: false", async () => {
    const { id } = await make({ items: [user("one")] });
    const first = (await respond({ input: "two", conversation: id })).body;
    expect([said(), first.conversation]).toEqual([["one", "two"], { id }]);
    const all = await items(id);
    expect(texts(all)).toEqual(["one", "two", first.output[0].content[0].text]);
    expect(all.at(-1)).toMatchObject({ id: first.output[0].id, model: "d", parent_id: all[1].id });
    await respond({ input: "three", conversation: { id }, store: false });
    expect(said()).toHaveLength(4);
    const counted = await app.call("GET", `/v1/conversations/${id}`);
    expect([counted.body.item_count, (await items(id)).length]).toEqual([5, 5]);
  });

  test("goes on behind the item that parent_id names", async () => {
    const { id } = await make({ items: [user("one"), { role: "assistant", content: "two" }] });
    const [one] = await items(id);
    await respond({ input: "else", conversation: { id, parent_id: one.id } });
    expect(said()).toEqual(["one", "else"]);
    await respond({ input: "more", conversation: id }); // the newest item ends the new branch
    expect(said().slice(0, 2)).toEqual(["one", "else"]);
    const wrong = await respond({ conversation: { id, parent_id: "msg_none" } });
    expect([wrong.status, wrong.body.error.param]).toEqual([400, "/conversation/parent_id"]);
  });

  test("in the background adds its items at its end; one whose conversation is deleted meanwhile ends as well", async () => {
    const [{ id }, doomed] = [await make(), await make()];
    const gate = Promise.withResolvers<void>();
    slow = gate.promise;
    const before = prompts.length;
    const kept = (await respond({ conversation: id, background: true })).body.id;
    const lost = (await respond({ conversation: doomed.id, background: true })).body.id;
    await until("the work to begin", () => prompts.length === before + 2);
    expect(await items(id)).toEqual([]);
    await app.call("DELETE", `/v1/conversations/${doomed.id}`);
    slow = undefined;
    gate.resolve();
    for (const response of [kept, lost])
      await until(
        "its end",
        async () => (await app.call("GET", `/v1/responses/${response}`)).body.status === "completed",
      );
    expect(await items(id)).toHaveLength(2);
  });

  test("cannot have a previous response too; a reference finds an item of a conversation", async () => {
    const { id } = await make({ items: [user("named")] });
    const previous = (await respond({})).body.id;
    const refused = await respond({ conversation: id, previous_response_id: previous });
    expect([refused.status, refused.body.error.param]).toEqual([400, "/previous_response_id"]);
    const [{ id: item }] = await items(id);
    await respond({ input: [{ type: "item_reference", id: item }] });
    expect(JSON.stringify(said())).toContain("named");
    const foreign = { model: "d", input: [{ type: "item_reference", id: item }] };
    expect((await app.call("POST", "/v1/responses", foreign, { key: app.keyB })).status).toBe(400);
  });
});

describe("storage", () => {
  test("counts every text, refuses what does not fit, and is free again after a removal", async () => {
    const { id } = await make();
    const before = used();
    await add(id, user("x".repeat(1000)));
    expect(used()).toBeGreaterThan(before + 1000);
    const long = user("x".repeat(200_000));
    const refused = await app.call("POST", `/v1/conversations/${id}/items`, { items: [long] });
    expect([refused.status, refused.body.error.message]).toEqual([400, expect.stringContaining("quotas.chat_bytes")]);
    const answer = await respond({ input: "x".repeat(200_000), conversation: id });
    expect([answer.status, (await items(id)).length]).toEqual([400, 1]);
    await app.call("DELETE", `/v1/conversations/${id}`);
    await prune(app.ctx);
    expect(used()).toBeLessThan(before);
  });

  test("a conversation goes by its last change, and only then", async () => {
    const [old, fresh] = [await make({ items: [user("old")] }), await make({ items: [user("fresh")] })];
    app.ctx.db.$client.run("UPDATE client_conversations SET updated_at = updated_at - ? WHERE id = ?", [
      DAY_MS,
      old.id,
    ]);
    await prune(app.ctx);
    expect(await items(old.id)).toHaveLength(1);
    await prune(app.ctx, app.ctx.clock.now() - DAY_MS / 2);
    expect((await app.call("GET", `/v1/conversations/${old.id}`)).status).toBe(404);
    expect(await items(fresh.id)).toHaveLength(1);
  });
});
