import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import Anthropic from "@anthropic-ai/sdk";
import { eq } from "drizzle-orm";
import { Ollama } from "ollama";
import OpenAI from "openai";
import { fakeClock } from "../../../../test/harness.ts";
import { type Json, type RolloutsKit, rolloutsKit } from "../../../../test/rollouts_kit.ts";
import { usedBytes } from "../../data/storage_usage/service.ts";
import { expire } from "./service.ts";
import { rolloutTurns } from "./table.ts";

const clock = fakeClock();
let kit: RolloutsKit;
beforeAll(async () => {
  kit = await rolloutsKit({ clock });
});
afterAll(() => kit.close());

const USER = { role: "user" as const, content: "hi" };
const END = "<|im_end|>";
const idsOf = (text: string) => [...kit.engine.tokenize(text, { addBos: false, special: true })];
const textOf = (ids: number[]) => kit.engine.detokenize(Int32Array.from(ids));
const openai = ({ base_url: baseURL, api_key: apiKey }: Json, headers: Record<string, string> = {}) =>
  new OpenAI({ baseURL, apiKey, maxRetries: 0, defaultHeaders: headers });
const rollout = async (id: string) => (await kit.app.call("GET", `/v1/rollouts/${id}`)).body;
const finish = (id: string, body: object) => kit.app.call("POST", `/v1/rollouts/${id}/finish`, body);
/** The text of a streamed or whole answer of a call with the key of the rollout. */
const post = (opened: Json, path: string, body: object, headers: Record<string, string> = {}) =>
  fetch(`${opened.base_url.replace(/\/v1$/, "")}${path}`, {
    method: "POST",
    headers: { authorization: `Bearer ${opened.api_key}`, "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  });

describe("a call becomes a turn with the tokens that were drawn", () => {
  test("of chat completions, responses, messages and Ollama, whole and streamed", async () => {
    const opened = await kit.open();
    kit.play(["Hel", "lo"]);
    const client = openai(opened);
    await client.chat.completions.create({ model: "gpt-none", messages: [USER] });
    let streamed = "";
    for await (const part of await client.chat.completions.create({ model: "x", messages: [USER], stream: true }))
      streamed += part.choices[0]?.delta.content ?? "";
    expect(streamed).toBe("Hello");
    expect((await client.responses.create({ model: "x", input: "hi" })).output_text).toBe("Hello");
    const events: string[] = [];
    for await (const event of await client.responses.create({ model: "x", input: "hi", stream: true }))
      events.push(event.type);
    expect(events.at(-1)).toBe("response.completed");
    const anthropic = new Anthropic({ baseURL: opened.base_url, apiKey: opened.api_key, maxRetries: 0 });
    const request = { model: "claude-none", max_tokens: 50, messages: [USER] };
    expect((await anthropic.messages.create(request)).content).toMatchObject([{ type: "text", text: "Hello" }]);
    expect(await anthropic.messages.stream(request).finalText()).toBe("Hello");
    const ollama = new Ollama({ host: opened.base_url, headers: { authorization: `Bearer ${opened.api_key}` } });
    expect((await ollama.chat({ model: "llama-none", messages: [USER] })).message.content).toBe("Hello");
    let said = "";
    for await (const part of await ollama.chat({ model: "llama-none", messages: [USER], stream: true }))
      said += part.message.content;
    expect(said).toBe("Hello");

    const turns = await kit.turns(opened.id);
    expect(turns.map(({ number }) => number)).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
    const prompt = [...kit.engine.requests.at(-1)!.prompt];
    for (const turn of turns) {
      expect(turn).toMatchObject({ status: "done", kept_tokens: 0, has_end: true, weights: "mdl_x" });
      expect(turn.prompt_token_ids).toEqual(prompt);
      expect(turn.token_ids).toEqual(idsOf(`Hello${END}`));
      expect(turn.logprobs).toEqual([-0.5, -0.5, -0.5]);
      expect(turn.messages).toMatchObject([USER]);
      expect(turn.completion.choices[0].message.content).toBe("Hello");
    }
    expect(await rollout(opened.id)).toMatchObject({ turns: 8, branches: 7, completion_tokens: 16, status: "open" });
  });

  test("also if a base URL is joined without /v1, and with the key alone", async () => {
    const opened = await kit.open();
    const short = { ...opened, base_url: opened.base_url.replace(/\/v1$/, "") };
    await openai(short).chat.completions.create({ model: "x", messages: [USER] });
    await openai({ ...opened, base_url: `${kit.url}/v1` }).chat.completions.create({ model: "x", messages: [USER] });
    expect(await kit.turns(opened.id)).toHaveLength(2);
  });

  test("a client that asks for no log-probabilities and no usage gets none", async () => {
    const opened = await kit.open();
    const body = { model: "x", messages: [USER], stream: true };
    const text = await (await post(opened, "/v1/chat/completions", body)).text();
    expect(text).not.toContain('"usage":{');
    expect(text).not.toContain("token_ids");
    expect(text).not.toContain('"logprobs":{');
    expect(text.trimEnd()).toEndWith("data: [DONE]");
  });

  test("a turn that goes on from an earlier one keeps its messages and tokens", async () => {
    const opened = await kit.open();
    const client = openai(opened);
    kit.play(["One"], ["Two"]);
    const messages: OpenAI.ChatCompletionMessageParam[] = [USER];
    const first = await client.chat.completions.create({ model: "x", messages });
    messages.push(first.choices[0]!.message, { role: "user", content: "more" });
    await client.chat.completions.create({ model: "x", messages });
    const [one, two] = await kit.turns(opened.id);
    expect(two).toMatchObject({ parent: 1, branch: null, kept_messages: 2, messages: [{ content: "more" }] });
    expect(two.kept_tokens).toBe(one.prompt_token_ids.length + one.token_ids.length);
    const whole = [...one.prompt_token_ids, ...one.token_ids, ...two.prompt_token_ids];
    expect(whole).toEqual([...kit.engine.requests.at(-1)!.prompt]);
    expect(textOf(whole)).toContain(`One${END}\n<|im_start|>user\nmore`);
    messages[0] = { role: "user", content: "rewritten" };
    await client.chat.completions.create({ model: "x", messages });
    const [, , three] = await kit.turns(opened.id);
    expect(three).toMatchObject({ parent: null, branch: "history", kept_tokens: 0, kept_messages: 0 });
    expect((await rollout(opened.id)).branches).toBe(1);
  });

  test("a call that the client leaves is a turn without its end, until the client repeats it", async () => {
    const opened = await kit.open();
    const held = Promise.withResolvers<void>();
    kit.play(["He", held.promise, "llo"], ["Hello"]);
    const left = new AbortController();
    const sent = fetch(`${opened.base_url}/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${opened.api_key}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "x", messages: [USER], stream: true }),
      signal: left.signal,
    });
    const reader = (await sent).body!.getReader();
    const decoder = new TextDecoder();
    for (let text = ""; !text.includes('"He"'); ) text += decoder.decode((await reader.read()).value, { stream: true });
    left.abort();
    while ((await kit.turns(opened.id)).length === 0) await Bun.sleep(1);
    const [turn] = await kit.turns(opened.id);
    expect(turn).toMatchObject({ status: "cancelled", token_ids: idsOf("He"), has_end: false });
    const again = await post(
      opened,
      "/v1/chat/completions",
      { model: "x", messages: [USER] },
      { "x-stainless-retry-count": "1" },
    );
    expect(((await again.json()) as Json).choices[0].message.content).toBe("Hello");
    expect(await kit.turns(opened.id)).toMatchObject([{ number: 1, status: "done" }]);
  });
});

describe("sampling and retries", () => {
  test("the sampling is that of the rollout", async () => {
    const opened = await kit.open({ sampling: { temperature: 0.5, top_k: 7, seed: 100, max_completion_tokens: 9 } });
    const client = openai(opened);
    await client.chat.completions.create({
      model: "x",
      messages: [USER],
      temperature: 2,
      presence_penalty: 1,
      max_tokens: 50,
    });
    const { sampling, maxTokens } = kit.engine.requests.at(-1)!;
    expect(sampling).toMatchObject({ temperature: 0.5, topK: 7, topP: 1, presencePenalty: 0, seed: 101 });
    expect(maxTokens).toBe(9);
    const plain = await kit.open();
    await openai(plain).chat.completions.create({ model: "x", messages: [USER], temperature: 0, top_p: 0.1 });
    expect(kit.engine.requests.at(-1)!.sampling).toMatchObject({ temperature: 1, topP: 1 });
    const refused = await post(plain, "/v1/chat/completions", { model: "x", messages: [USER], n: 2 });
    expect(refused.status).toBe(400);
  });

  test("a call that an SDK repeats gets the recorded answer, whole or streamed, and is no second turn", async () => {
    const opened = await kit.open({ max_turns: 1 });
    kit.play(["First"], ["Second"]);
    const body = { model: "x", messages: [USER] };
    await post(opened, "/v1/chat/completions", body);
    const retry = { "x-stainless-retry-count": "1" };
    const whole = (await (await post(opened, "/v1/chat/completions", body, retry)).json()) as Json;
    expect(whole.choices[0].message.content).toBe("First");
    const streamed = await post(opened, "/v1/chat/completions", { ...body, stream: true }, retry);
    expect(await streamed.text()).toContain('"content":"First"');
    const anthropic = new Anthropic({
      baseURL: opened.base_url,
      apiKey: opened.api_key,
      maxRetries: 0,
      defaultHeaders: retry,
    });
    const other = { model: "x", max_tokens: 50, messages: [USER] };
    const refused = await anthropic.messages.create(other).catch((error) => error); // another body: no retry of the first
    expect(refused.message).toContain("max_turns");
    expect(await kit.turns(opened.id)).toHaveLength(1);
  });
});

describe("the end", () => {
  test("each limit ends a rollout with an error that no SDK repeats", async () => {
    const ends = async (fields: object, between: () => unknown = () => {}) => {
      const opened = await kit.open(fields);
      kit.play(["abcd"]);
      const client = openai(opened);
      await client.chat.completions.create({ model: "x", messages: [USER] });
      await between();
      const failed = await client.chat.completions.create({ model: "x", messages: [USER] }).catch((error) => error);
      expect([failed.status, failed.code]).toEqual([400, "rollout_ended"]);
      return (await rollout(opened.id)).ended_by;
    };
    expect(await ends({ max_turns: 1 })).toBe("turns");
    expect(await ends({ max_tokens: 1 })).toBe("tokens");
    expect(await ends({ max_seconds: 10 }, () => clock.advance(10_000))).toBe("seconds");
  });

  test("a rollout that is never finished ends when its time is over", async () => {
    const opened = await kit.open({ max_seconds: 5 });
    expire(kit.app.ctx);
    expect((await rollout(opened.id)).status).toBe("open");
    clock.advance(5_000);
    expire(kit.app.ctx);
    expect(await rollout(opened.id)).toMatchObject({ status: "ended", ended_by: "seconds", reward: null });
  });

  test("a reward may be late, and comes once", async () => {
    const opened = await kit.open({ max_turns: 1 });
    await openai(opened).chat.completions.create({ model: "x", messages: [USER] });
    await openai(opened)
      .chat.completions.create({ model: "x", messages: [USER] })
      .catch(() => {});
    const reward = { reward: 0.5, metrics: { steps: 3 } };
    expect((await finish(opened.id, reward)).body).toMatchObject({ status: "finished", ended_by: "turns", ...reward });
    expect((await finish(opened.id, reward)).status).toBe(200);
    expect((await finish(opened.id, { reward: 1 })).body.error.code).toBe("unsupported_state");
    expect((await finish(opened.id, { reward: 0.5 })).status).toBe(400);
    expect((await rollout(opened.id)).reward).toBe(0.5);
    const late = await post(opened, "/v1/chat/completions", { model: "x", messages: [USER] });
    expect(((await late.json()) as Json).error.code).toBe("rollout_ended");
  });
});

describe("the key of a rollout", () => {
  test("opens its base URL and the calls of models alone", async () => {
    const [one, two] = [await kit.open(), await kit.open()];
    const body = { model: "x", messages: [USER] };
    expect((await post({ ...one, api_key: two.api_key }, "/v1/chat/completions", body)).status).toBe(401);
    expect((await post({ ...one, api_key: kit.app.keyA }, "/v1/chat/completions", body)).status).toBe(401);
    const key = { key: one.api_key };
    expect((await kit.app.call("GET", "/v1/models", undefined, key)).status).toBe(200);
    for (const [method, path] of [
      ["GET", "/v1/rollouts"],
      ["POST", `/v1/rollouts/${one.id}/finish`],
      ["GET", "/v1/datasets"],
      ["POST", "/v1/embeddings"],
      ["GET", "/v1/responses/resp_1"],
    ] as const)
      expect((await kit.app.call(method, path, method === "POST" ? {} : undefined, key)).status).toBe(403);
    const stored = { model: "x", input: "hi", previous_response_id: "resp_1" };
    expect((await post(one, "/v1/responses", stored)).status).toBe(400);
    const { id } = (await (await post(one, "/v1/responses", { model: "x", input: "hi" })).json()) as Json;
    expect((await kit.app.call("GET", `/v1/responses/${id}`)).status).toBe(404); // nothing is stored beside the turn
  });

  test("ends with the key that opened it, and with the rollout", async () => {
    const { key, row } = kit.app.keyOf("alpha", ["inference"]);
    const { body: opened } = await kit.app.call("POST", "/v1/rollouts", { model: "d" }, { key });
    const call = () =>
      kit.app.call("POST", "/v1/chat/completions", { model: "x", messages: [USER] }, { key: opened.api_key });
    expect((await call()).status).toBe(200);
    await kit.app.call("DELETE", `/v1/api_keys/${row.id}`);
    expect((await call()).status).toBe(401);
    const other = await kit.open();
    expect((await kit.app.call("DELETE", `/v1/rollouts/${other.id}`)).body.deleted).toBe(true);
    expect((await post(other, "/v1/chat/completions", { model: "x", messages: [USER] })).status).toBe(401);
  });
});

test("a recorded rollout answers the same agent again, without the model", async () => {
  const opened = await kit.open();
  kit.play(["One"], ["Two"]);
  const run = async (by: Json) => {
    const client = openai(by);
    const messages: OpenAI.ChatCompletionMessageParam[] = [USER];
    const said: string[] = [];
    for (let turn = 0; turn < 2; turn++) {
      const { message } = (await client.chat.completions.create({ model: "x", messages })).choices[0]!;
      said.push(message.content ?? "");
      messages.push(message, { role: "user", content: "more" });
    }
    return said;
  };
  expect(await run(opened)).toEqual(["One", "Two"]);
  const count = kit.engine.requests.length;
  const replay = await kit.open({ replay_of: opened.id });
  expect(await run(replay)).toEqual(["One", "Two"]);
  expect(kit.engine.requests).toHaveLength(count);
  const [a, b] = [await kit.turns(opened.id), await kit.turns(replay.id)];
  expect(b.map(({ token_ids, parent }) => [token_ids, parent])).toEqual(a.map((each) => [each.token_ids, each.parent]));
  const messages = [{ role: "user" as const, content: "other" }];
  const failed = await openai(replay)
    .chat.completions.create({ model: "x", messages })
    .catch((error) => error);
  expect(failed.message).toContain("differs from the recorded one at turn 3");
});

test("rollouts become rows: one for each conversation, with tokens and a mask", async () => {
  const opened = await kit.open();
  kit.play([..."One"], [..."Two"], [..."Three"]);
  const client = openai(opened);
  const messages: OpenAI.ChatCompletionMessageParam[] = [USER];
  messages.push((await client.chat.completions.create({ model: "x", messages })).choices[0]!.message);
  messages.push({ role: "user", content: "more" });
  await client.chat.completions.create({ model: "x", messages });
  await client.chat.completions.create({ model: "x", messages: [{ role: "user", content: "aside" }] });
  await finish(opened.id, { reward: 1 });
  const made = await kit.app.call("POST", "/v1/rollouts/dataset", { name: "agents", rollouts: [opened.id] });
  expect([made.status, made.body.rows]).toEqual([201, 2]);
  const { body } = await kit.app.call("GET", `/v1/datasets/${made.body.id}/rows`);
  const [row] = body.data.map((each: Json) => each.data);
  expect(row.messages.map((each: Json) => each.content)).toEqual(["hi", "One", "more", "Two"]);
  expect(row.reward).toBe(1);
  const drawn = row.token_ids.filter((_: number, i: number) => row.token_mask[i] === 1);
  expect(textOf(drawn)).toBe(`One${END}Two${END}`);
  expect(textOf(row.token_ids)).toEndWith(`more${END}\n<|im_start|>assistant\nTwo${END}`);
  expect(row.logprobs).toHaveLength(row.token_ids.length);
});

test("every byte counts for the quota of chats, and goes with its rollout", async () => {
  const { ctx, workspaceA: workspaceId } = kit.app;
  const used = () => usedBytes(ctx.db, { workspaceId, kind: "chats" });
  const before = used();
  const opened = await kit.open({ metadata: { task: "sum" } });
  await openai(opened).chat.completions.create({ model: "x", messages: [USER] });
  const turn = ctx.db.select().from(rolloutTurns).where(eq(rolloutTurns.rolloutId, opened.id)).get()!;
  const { settings, messages, tools, completion, promptIds, tokenIds, logprobs } = turn;
  const parts = [settings, messages, tools, completion, promptIds, tokenIds, logprobs];
  const bytes = parts.reduce((sum, part) => sum + Buffer.byteLength(part), 512);
  expect(used() - before).toBe(bytes + 512 + "{}".length + '{"task":"sum"}'.length);
  await finish(opened.id, { reward: 1, metrics: { steps: 1 } });
  expect(used() - before).toBe(bytes + 512 + "{}".length + '{"task":"sum"}'.length + '{"steps":1}'.length);
  await kit.app.call("DELETE", `/v1/rollouts/${opened.id}`);
  expect(used()).toBe(before);
});
