import { afterEach, expect, test } from "bun:test";
import { fakeClock, manyApps } from "../../../../../test/harness.ts";

const { open, closeAll } = manyApps();
afterEach(closeAll);

type Value = string | number | boolean;
const attributes = (pairs: Record<string, Value>) =>
  Object.entries(pairs).map(([key, value]) => ({
    key,
    value:
      typeof value === "string"
        ? { stringValue: value }
        : typeof value === "boolean"
          ? { boolValue: value }
          : { intValue: String(value) },
  }));

const TRACE = "5B8EFFF798038103D269B633813FC60C";
const START = 1_790_000_000_000_000_000n;
let spans = 0;
const span = (pairs: Record<string, Value>, { atMs = 0, lastsMs = 1_500, ...more }: Record<string, unknown> = {}) => ({
  traceId: TRACE,
  spanId: (++spans).toString(16).padStart(16, "0"),
  name: "chat gpt-4",
  kind: 3,
  startTimeUnixNano: String(START + BigInt(atMs as number) * 1_000_000n),
  endTimeUnixNano: String(START + BigInt((atMs as number) + (lastsMs as number)) * 1_000_000n),
  attributes: attributes(pairs),
  droppedAttributesCount: 0,
  ...more,
});
const batch = (...given: unknown[]) => ({
  resourceSpans: [
    {
      resource: { attributes: attributes({ "service.name": "shop" }) },
      scopeSpans: [{ scope: { name: "library", version: "1" }, spans: given }],
      schemaUrl: "",
    },
  ],
});

const CHAT = {
  "gen_ai.operation.name": "chat",
  "gen_ai.provider.name": "openai",
  "gen_ai.system": "of older clients",
  "gen_ai.request.model": "gpt-4",
  "gen_ai.request.temperature": 1,
  "gen_ai.usage.input_tokens": 12,
  "gen_ai.usage.output_tokens": 34,
  "gen_ai.conversation.id": "talk-9",
  "gen_ai.input.messages": JSON.stringify([{ role: "user", parts: [{ type: "text", content: "Hello there" }] }]),
  "gen_ai.output.messages": JSON.stringify([{ role: "assistant", parts: [{ type: "text", content: "Hi" }] }]),
};

test("a span of a model call becomes a trace with its tool calls; other spans are accepted and not kept", async () => {
  const app = open();
  const tool = span(
    { "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "weather" },
    { atMs: 1_600, lastsMs: 20 },
  );
  const sent = batch(span(CHAT), tool, span({ "http.request.method": "GET" }));
  const answer = await app.call("POST", "/v1/otlp/v1/traces", sent);
  expect([answer.status, answer.body]).toEqual([200, {}]);
  const { data } = (await app.call("GET", "/v1/traces")).body;
  expect(data).toHaveLength(1);
  const trace = (await app.call("GET", `/v1/traces/${data[0].id}`)).body;
  expect(trace).toMatchObject({
    source: "otlp",
    model: "gpt-4",
    status: 200,
    prompt_tokens: 12,
    completion_tokens: 34,
    duration_ms: 1_500,
    conversation_id: "talk-9",
    capture: "full",
    started_at: "2026-09-21T14:13:20.000Z",
    input: [{ role: "user", content: "Hello there" }],
    output: [{ role: "assistant", content: "Hi" }],
    parameters: { temperature: 1 },
    metadata: { service: "shop", provider: "openai", otel_trace_id: TRACE.toLowerCase() },
    spans: [{ name: "tool_call", start_ms: 1_600, duration_ms: 20, attributes: { tool: "weather" } }],
  });
  expect((await app.call("GET", "/v1/traces?q=hello")).body.data).toHaveLength(1);
  await app.call("POST", "/v1/otlp/v1/traces", sent);
  expect((await app.call("GET", "/v1/traces")).body.data).toHaveLength(1); // the exporter sent it twice
});

test("older forms of content, errors, and spans without content", async () => {
  const app = open();
  const base = { "gen_ai.system": "x", "gen_ai.request.model": "m" };
  const numbered = span({
    ...base,
    "gen_ai.prompt.0.role": "user",
    "gen_ai.prompt.0.content": "one",
    "gen_ai.completion.0.content": "two",
  });
  const events = [{ name: "gen_ai.content.prompt", attributes: attributes({ "gen_ai.prompt": "three" }) }];
  const byEvent = span(base, { events });
  const failed = span({ ...base, "error.type": "timeout" }, { status: { code: 2, message: "late" } });
  await app.call("POST", "/v1/otlp/v1/traces", batch(numbered, byEvent, failed));
  const lines = ((await app.call("GET", "/v1/traces/export")).body as string).trim().split("\n");
  expect(lines.map((line) => JSON.parse(line))).toMatchObject([
    { input: [{ role: "user", content: "one" }], output: [{ content: "two" }] },
    { input: "three", output: null },
    { status: 500, error_code: "timeout", capture: "metadata", input: null },
  ]);
});

test("spans outside the format are counted as rejected; secrets in good ones are removed", async () => {
  const app = open();
  const key = `sk-${"a1B2".repeat(8)}`;
  const cut = `${"x".repeat(500)} ${key}`; // a name and a value of metadata are cut in the middle of the key
  const leaky = span({
    ...CHAT,
    "gen_ai.request.model": cut.slice(320),
    "gen_ai.provider.name": cut,
    "gen_ai.input.messages": `use ${key}`,
  });
  const tool = span({ "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": `tool ${key}` }, { atMs: 5 });
  const { body } = await app.call("POST", "/v1/otlp/v1/traces", batch(leaky, tool, { traceId: "short" }, 7));
  expect(body.partialSuccess).toMatchObject({ rejectedSpans: 2 });
  const exported = (await app.call("GET", "/v1/traces/export")).body as string;
  expect(exported).toContain("[redacted]");
  expect(exported).not.toContain(key.slice(0, 8));
  expect(JSON.parse(exported).spans).toMatchObject([{ name: "tool_call", attributes: { tool: "tool [redacted]" } }]);
  expect((await app.call("POST", "/v1/otlp/v1/traces", { resourceSpans: 3 })).status).toBe(422);
});

test("numbers that no column could hold are replaced, and the batch is stored", async () => {
  const app = open();
  const odd = { key: "http.response.status_code", value: { doubleValue: 1.5 } };
  const counted = attributes({ ...CHAT, "gen_ai.usage.input_tokens": -3, "http.response.status_code": 7 });
  const first = { ...span(CHAT), startTimeUnixNano: 1.5, endTimeUnixNano: 2_000_000.5 };
  const second = { ...span({}), attributes: [...attributes(CHAT), odd] };
  const third = { ...span({}), attributes: counted };
  const { status, body } = await app.call("POST", "/v1/otlp/v1/traces", batch(first, second, third));
  expect([status, body]).toEqual([200, {}]);
  expect((await app.call("GET", "/v1/traces")).body.data).toMatchObject([
    { status: 200, prompt_tokens: 0 },
    { status: 200, prompt_tokens: 12 },
    { status: 200, duration_ms: 2, started_at: "1970-01-01T00:00:00.000Z" },
  ]);
});

test("a tool belongs to the last model call before it", async () => {
  const app = open();
  const tool = (name: string, atMs: number) =>
    span({ "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name }, { atMs });
  const sent = batch(tool("b", 30), span(CHAT, { atMs: 20 }), tool("a", 15), span(CHAT, { atMs: 10 }), tool("none", 5));
  await app.call("POST", "/v1/otlp/v1/traces", sent);
  const lines = ((await app.call("GET", "/v1/traces/export")).body as string).trim().split("\n");
  expect(lines.map((line) => JSON.parse(line).spans)).toMatchObject([
    [{ attributes: { tool: "b" }, start_ms: 10 }],
    [{ attributes: { tool: "a" }, start_ms: 5 }],
  ]);
});

test("spans of the past are listed by the time of their arrival: pages lose and repeat nothing while more arrive", async () => {
  const clock = fakeClock();
  const app = open({ clock });
  const arrive = async (atMs: number) => {
    clock.advance(1_000);
    await app.call("POST", "/v1/otlp/v1/traces", batch(span(CHAT, { atMs }), span(CHAT, { atMs: -atMs })));
  };
  for (const atMs of [5e6, 1e6, 9e6]) await arrive(atMs); // not in the order in which they began
  type Listed = { id: string; created_at: string; started_at: string };
  const all: Listed[] = (await app.call("GET", "/v1/traces")).body.data;
  expect(all).toHaveLength(6);
  expect(all.map((each) => each.created_at)).toEqual(
    all
      .map((each) => each.created_at)
      .sort()
      .reverse(),
  );
  expect(all.map((each) => each.started_at)).not.toEqual(
    all
      .map((each) => each.started_at)
      .sort()
      .reverse(),
  );
  for (const filter of ["", "&q=hello", "&source=otlp&status=ok"])
    for (const by of ["next_after", "id"] as const) {
      const pages: string[] = [];
      for (let after = ""; ; ) {
        const { body } = await app.call("GET", `/v1/traces?limit=2${filter}${after}`);
        pages.push(...body.data.map(({ id }: Listed) => id));
        if (!body.has_more) break;
        after = `&after=${by === "id" ? pages.at(-1) : body.next_after}`;
        await arrive(2e6); // newer than the first page
      }
      expect([filter, by, pages.slice(-6)]).toEqual([filter, by, all.map(({ id }) => id)]);
      expect(new Set(pages).size).toBe(pages.length);
    }
});
