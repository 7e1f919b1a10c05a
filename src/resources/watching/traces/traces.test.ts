import { afterEach, expect, setDefaultTimeout, test } from "bun:test";
import { manyDeploying } from "../../../../test/fake_replicas.ts";
import { until } from "../../../../test/harness.ts";
import { pretendServing } from "../../../../test/pretend_replica.ts";
import { generate } from "../../serving/deployments/chat/generate.ts";
import { liveOf } from "../../serving/deployments/fleet/fleet.ts";

setDefaultTimeout(60_000); // some start processes
const { open, closeAll } = manyDeploying();
afterEach(closeAll);

const CHAT = { model: "d", messages: [{ role: "user", content: "My card is 4111111111111111, hello" }] };
type App = Awaited<ReturnType<typeof open>>;

/** The trace of a request, once its usage is known. */
const traceOf = (on: App, answer: { headers: Headers }) =>
  until("its trace", async () => {
    const { status, body } = await on.call("GET", `/v1/traces/${answer.headers.get("x-trace-id")}`);
    return status === 200 ? body : undefined;
  });

async function serving(settings: Record<string, unknown> = {}, options: Parameters<typeof open>[0] = {}) {
  const on = await open(options);
  const id = await on.deploy(settings);
  await on.reaches(id, "serving");
  return { on, id, chat: (more = {}) => on.call("POST", "/v1/chat/completions", { ...CHAT, ...more }) };
}

test("conformance note: a single trace can be deleted, with its text and its scores", async () => {
  const { on, chat } = await serving({ capture: "full" });
  const [first, second] = [await traceOf(on, await chat()), await traceOf(on, await chat())];
  await on.call("POST", `/v1/traces/${first.id}/scores`, { name: "good", value: 1 });
  const foreign = await on.call("DELETE", `/v1/traces/${first.id}`, undefined, { key: on.keyB });
  expect(foreign.status).toBe(404);
  const { status, body } = await on.call("DELETE", `/v1/traces/${first.id}`);
  expect([status, body]).toEqual([200, { id: first.id, object: "trace", deleted: true }]);
  expect((await on.call("GET", `/v1/traces/${first.id}`)).status).toBe(404);
  expect((await on.call("DELETE", `/v1/traces/${first.id}`)).status).toBe(404);
  const left = async (query = "") =>
    (await on.call("GET", `/v1/traces${query}`)).body.data.map((each: { id: string }) => each.id);
  expect(await left()).toEqual([second.id]);
  expect(await left("?q=hello")).toEqual([second.id]);
  expect(on.ctx.db.$client.query("SELECT count(*) AS n FROM trace_scores").get()).toEqual({ n: 0 });
});

test("without capture a trace has times, tokens and status, and nothing of the request", async () => {
  const { on, id, chat } = await serving();
  const answer = await chat({ metadata: { conversation_id: "c1", team: "x" }, temperature: 0.5 });
  const trace = await traceOf(on, answer);
  expect(trace).toMatchObject({
    object: "trace",
    source: "chat",
    deployment_id: id,
    capture: "none",
    status: 200,
    error_code: null,
    model: "random",
    adapter: null,
    prompt_tokens: 5,
    completion_tokens: 3,
    conversation_id: null,
    metadata: {},
    parameters: null,
    input: null,
    output: null,
    scores: [],
  });
  expect(trace.key_id).toStartWith("key_");
  expect(trace.duration_ms).toBeGreaterThan(0);
  expect(trace.spans.map((span: { name: string }) => span.name)).toEqual(["template", "prompt", "decode"]);
  const [template, prompt, decode] = trace.spans;
  expect(prompt).toMatchObject({ duration_ms: 2, attributes: { tokens: 5, cached_tokens: 0 } });
  expect(prompt.start_ms).toBeCloseTo(template.start_ms + 1, 2);
  expect(decode.start_ms).toBeCloseTo(template.start_ms + 3, 2);
  expect(trace.ttft_ms).toBeCloseTo(decode.start_ms, 2);
});

test("capture metadata keeps plain parameters and metadata, but no content", async () => {
  const { on, id, chat } = await serving();
  const patched = await on.call("PATCH", `/v1/deployments/${id}`, { capture: "metadata", capture_retention_days: 7 });
  expect(patched.body).toMatchObject({ capture: "metadata", capture_retention_days: 7, capture_redact: [] });
  on.ctx.db.$client.run("UPDATE deployments SET cost_per_hour_micros = 3600000000"); // a dollar for each second
  const metadata = { conversation_id: "c1", team: "x", n: 3, deep: {}, tags: ["red"] };
  const more = { metadata, user: "ann", temperature: 0.5, stop: ["END"] };
  const trace = await traceOf(on, await chat(more));
  expect(trace).toMatchObject({
    capture: "metadata",
    conversation_id: "c1",
    input: null,
    output: null,
    metadata: { conversation_id: "c1", team: "x", n: "3" },
    parameters: { temperature: 0.5, n: 1, stream: false },
    user: "ann",
    tags: ["red"],
  });
  expect([trace.parameters.stop, trace.parameters.user]).toEqual([undefined, undefined]);
  expect(trace.cost_usd).toBeGreaterThan(0);
  expect(trace.cost_usd).toBeLessThanOrEqual(trace.duration_ms / 1000);
});

test("requests that the server makes for itself have the source evaluation", async () => {
  const { on, id } = await serving({ capture: "full" });
  const { signal } = new AbortController();
  const messages = [{ role: "user" as const, content: "Is it good?" }];
  const task = { workspaceId: on.workspaceA, deploymentId: id, messages, params: {}, signal, background: true };
  await generate(on.ctx, task);
  const [trace] = await until("the trace", async () => {
    const { data } = (await on.call("GET", "/v1/traces?source=evaluation")).body;
    return data.length > 0 ? data : undefined;
  });
  expect(trace).toMatchObject({ source: "evaluation", capture: "none", user: null });
  expect((await on.call("GET", "/v1/traces?source=requests")).body.data).toEqual([]);
});

test.each([false, true])("capture full keeps content without what the patterns match (stream: %p)", async (stream) => {
  const { on, chat } = await serving({ capture: "full", capture_redact: ["\\b\\d{16}\\b", "w1"] });
  const answer = await chat({ stream, tools: [], stop: ["END"] });
  const trace = await traceOf(on, answer);
  expect(trace).toMatchObject({
    capture: "full",
    input: [{ role: "user", content: "My card is [redacted], hello" }],
    output: [{ role: "assistant", content: "w0 [redacted] w2 " }],
    parameters: { stop: ["END"], stream },
  });
  if (stream) expect(trace.ttft_ms).toBeGreaterThan(0);
  const quote = { name: "note", value: "it quotes 4111111111111111", kind: "text", comment: "w1" };
  const { body: score } = await on.call("POST", `/v1/traces/${trace.id}/scores`, quote);
  expect(score).toMatchObject({ value: "it quotes [redacted]", comment: "[redacted]" });
});

test("text completions and embeddings have traces too", async () => {
  const on = await open();
  const id = await on.deploy({ model: "owner/none", capture: "full" });
  pretendServing(on, id);
  const completion = await on.call("POST", "/v1/completions", { model: "d", prompt: "once" });
  expect(await traceOf(on, completion)).toMatchObject({ source: "completion", input: "once", output: ["hello"] });
  const embedding = await on.call("POST", "/v1/embeddings", { model: "d", input: ["a", "b"] });
  expect(await traceOf(on, embedding)).toMatchObject({ source: "embedding", input: ["a", "b"], ttft_ms: null });
});

test("a request that waits for a wake has a span for it; a client that leaves has a trace with 499", async () => {
  const { on, id, chat } = await serving(
    { min_replicas: 0, idle_timeout_seconds: 1, capture: "full" },
    { lives: [{ words: 3 }, { words: 100_000, gapMs: 2 }] },
  );
  await until("it to be parked", async () => (await on.call("GET", `/v1/deployments/${id}`)).body.parked);
  const client = new AbortController();
  const request = new Request("http://localhost/v1/chat/completions", {
    method: "POST",
    headers: { authorization: `Bearer ${on.keyA}`, "content-type": "application/json" },
    body: JSON.stringify({ ...CHAT, stream: true }),
    signal: client.signal,
  });
  const response = await on.handle(request);
  const reader = response.body?.getReader();
  await until("a word", async () => new TextDecoder().decode((await reader?.read())?.value).includes("w0"));
  client.abort();
  await until("its place to be free", () => liveOf(on.ctx, id).flights.size === 0);
  const trace = await traceOf(on, response);
  expect(trace).toMatchObject({ status: 499, error_code: "client_left", output: null });
  expect(trace.spans[0]).toMatchObject({ name: "wake", start_ms: 0 });
  expect(trace.spans[0].duration_ms).toBeGreaterThan(0);
  await chat; // the deployment ends with the application
});

test("scores: number, boolean, category and text; filters find them", async () => {
  const { on, chat } = await serving();
  const [first, second] = [await chat(), await chat()];
  const id = (await traceOf(on, first)).id;
  await traceOf(on, second);
  const score = (json: object, of = id) => on.call("POST", `/v1/traces/${of}/scores`, json);
  expect((await score({ name: "quality", value: 0.8 })).body).toMatchObject({ kind: "number", value: 0.8 });
  expect((await score({ name: "good", value: true, source: "code" })).body).toMatchObject({
    kind: "boolean",
    value: true,
  });
  expect((await score({ name: "tone", value: "rude", comment: "see vk_" })).body).toMatchObject({ kind: "category" });
  expect((await score({ name: "note", value: "long", kind: "text" })).body).toMatchObject({
    kind: "text",
    value: "long",
  });
  expect((await score({ name: "x", value: "1", kind: "number" })).body.error.param).toBe("/value");
  const trace = (await on.call("GET", `/v1/traces/${id}`)).body;
  expect(trace.scores.map(({ name }: { name: string }) => name)).toEqual(["quality", "good", "tone", "note"]);
  const found = async (query: string) =>
    (await on.call("GET", `/v1/traces?${query}`)).body.data.map((each: { id: string }) => each.id);
  expect(await found("score=quality")).toEqual([id]);
  expect(await found("score=quality&min_score=0.9")).toEqual([]);
  expect(await found("score=good&min_score=1")).toEqual([id]);
  expect((await on.call("GET", "/v1/traces?min_score=1")).body.error).toMatchObject({ param: "min_score" });
  const key = { "idempotency-key": "once" };
  const send = () => on.call("POST", `/v1/traces/${id}/scores`, { name: "k", value: 1 }, { headers: key });
  expect((await send()).body.id).toBe((await send()).body.id);
  expect((await on.call("GET", `/v1/traces/${id}`, undefined, { key: on.keyB })).status).toBe(404);
  expect((await on.call("POST", `/v1/traces/${id}/scores`, { name: "k", value: 1 }, { key: on.keyB })).status).toBe(
    404,
  );
});

test("conversations: ordered traces under the id of the client, listed and replayed", async () => {
  const { on, id, chat } = await serving({ capture: "full" });
  const turns = [
    await chat({ metadata: { conversation_id: "talk-1" } }),
    await on.call("POST", "/v1/chat/completions", CHAT, { headers: { "x-conversation-id": "talk-1" } }),
  ];
  await traceOf(on, await chat({ metadata: { conversation_id: "talk-2" } }));
  for (const turn of turns) await traceOf(on, turn);
  const listed = (await on.call("GET", "/v1/traces/conversations")).body;
  expect(listed.data.map((each: { id: string }) => each.id).sort()).toEqual(["talk-1", "talk-2"]);
  const one = (await on.call("GET", "/v1/traces/conversations/talk-1")).body;
  expect(one).toMatchObject({ object: "trace.conversation", trace_count: 2, prompt_tokens: 10, has_more: false });
  expect(one.traces.map((each: { id: string }) => each.id)).toEqual(
    turns.map((each) => each.headers.get("x-trace-id")),
  );
  expect((await on.call("GET", "/v1/traces?conversation_id=talk-1")).body.data).toHaveLength(2);
  const page = (await on.call("GET", "/v1/traces/conversations?limit=1")).body;
  const next = (await on.call("GET", `/v1/traces/conversations?limit=1&after=${page.data[0].id}`)).body;
  expect([page.has_more, next.has_more, page.data[0].id !== next.data[0].id]).toEqual([true, false, true]);
  expect((await on.call("GET", "/v1/traces/conversations?after=none")).body.error.code).toBe("invalid_cursor");

  const replayed = (await on.call("POST", "/v1/traces/conversations/talk-1/replay", {})).body;
  expect(replayed.data).toHaveLength(2);
  expect(replayed.data[0]).toMatchObject({
    trace_id: one.traces[0].id,
    deployment_id: id,
    status: 200,
    error: null,
    output: [{ content: "w0 w1 w2 " }],
    recorded_output: [{ content: "w0 w1 w2 " }],
  });
  const again = await until("the trace of the replay", async () => {
    const { body, status } = await on.call("GET", `/v1/traces/${replayed.data[0].replay_trace_id}`);
    return status === 200 ? body : undefined;
  });
  expect(again).toMatchObject({ conversation_id: null, metadata: { replay_of: one.traces[0].id } });
  expect((await on.call("GET", "/v1/traces/conversations/talk-1", undefined, { key: on.keyB })).status).toBe(404);
});

test("a conversation without content is not replayed, and the answer says why", async () => {
  const { on, chat } = await serving({ capture: "metadata" });
  await traceOf(on, await chat({ metadata: { conversation_id: "talk" } }));
  const { status, body } = await on.call("POST", "/v1/traces/conversations/talk/replay", {});
  expect([status, body.error.code, body.error.message]).toEqual([
    400,
    "unsupported_state",
    expect.stringContaining("capture"),
  ]);
});

test("a bad pattern is rejected with its place and its reason", async () => {
  const on = await open();
  const deploy = (capture_redact: string[]) =>
    on.call("POST", "/v1/deployments", { model: "random", name: "d", capture_redact });
  expect((await deploy(["ok", "(a)\\1"])).body.error).toMatchObject({
    code: "schema",
    param: "/capture_redact/1",
    message: expect.stringContaining("the pattern uses \\1"),
  });
  expect((await deploy(Array.from({ length: 21 }, () => "a"))).body.error.param).toBe("/capture_redact");
});
