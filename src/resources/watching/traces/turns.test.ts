import { afterEach, expect, test } from "bun:test";
import { manyApps } from "../../../../test/harness.ts";
import { LONGEST_TURN_MS, longestTurnMsOf } from "../../../../test/turns.ts";
import { record } from "./service.ts";

const { open, closeAll } = manyApps();
afterEach(closeAll);

const hex = (number: number, digits: number) => number.toString(16).padStart(digits, "0");
const attribute = (key: string, stringValue: string) => ({ key, value: { stringValue } });
const span = (i: number) => ({
  traceId: hex(i, 32),
  spanId: hex(i, 16),
  name: "chat",
  startTimeUnixNano: "1700000000000000000",
  endTimeUnixNano: "1700000001000000000",
  attributes: [attribute("gen_ai.operation.name", "chat"), attribute("gen_ai.request.model", `m${i}`)],
});

test("a batch of spans lets others in, and counts once when it is sent twice", async () => {
  const app = open();
  const spansOf = (from: number, count: number) => ({
    resourceSpans: [{ scopeSpans: [{ spans: Array.from({ length: count }, (_, i) => span(from + i)) }] }],
  });
  const send = (body: object) => app.call("POST", "/v1/otlp/v1/traces", body);
  await send(spansOf(10_000, 20)); // the first request compiles
  const longest = await longestTurnMsOf(() => send(spansOf(0, 2_000)));
  expect(longest).toBeLessThan(LONGEST_TURN_MS);
  await send(spansOf(0, 2_000));
  expect(app.ctx.db.$client.query("SELECT count(*) AS n FROM traces").get()).toEqual({ n: 2_020 });
});

test("a list of traces lets others in while it stores what is buffered", async () => {
  const app = open();
  const list = () => app.call("GET", "/v1/traces?limit=1");
  await list();
  const messages = [{ role: "user", content: "word hello ".repeat(2_000) }];
  const content = () => ({ input: { messages }, output: { content: "answer ".repeat(2_000) } }) as never;
  const trace = {
    workspaceId: app.workspaceA,
    source: "chat",
    capture: "full",
    status: 200,
    spans: [],
    content,
  } as const;
  for (let i = 0; i < 200; i++) record(app.ctx, { ...trace, startedAt: i, durationMs: 1 } as never);
  expect(await longestTurnMsOf(list)).toBeLessThan(LONGEST_TURN_MS);
  expect(app.ctx.state.traces.buffer.size).toBe(0);
});
