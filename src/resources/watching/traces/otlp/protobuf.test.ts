import { afterAll, beforeAll, expect, test } from "bun:test";
import { gzipSync } from "node:zlib";
import { type TestApp, testApp } from "../../../../../test/harness.ts";
import { randomFor, sweep } from "../../../../../test/sweep.ts";
import { takingTurns } from "../../../../lib/turns.ts";
import { readTraces, writeExported } from "./protobuf.ts";

let app: TestApp;
beforeAll(() => {
  app = testApp({ flags: { "http.max_body_bytes": 65_536 } });
});
afterAll(() => app.close().then(app.remove));

function varint(value: bigint): number[] {
  const all: number[] = [];
  for (let rest = BigInt.asUintN(64, value); ; rest >>= 7n) {
    if (rest < 0x80n) return [...all, Number(rest)];
    all.push(Number(rest & 0x7fn) | 0x80);
  }
}
const bytes = (field: number, content: Uint8Array | string | number[]): number[] => {
  const inside = typeof content === "string" ? [...Buffer.from(content)] : [...content];
  return [...varint(BigInt(field * 8 + 2)), ...varint(BigInt(inside.length)), ...inside];
};
const number = (field: number, value: bigint) => [...varint(BigInt(field * 8)), ...varint(value)];
const fixed64 = (field: number, value: bigint) => {
  const view = new DataView(new ArrayBuffer(8));
  view.setBigUint64(0, value, true);
  return [...varint(BigInt(field * 8 + 1)), ...new Uint8Array(view.buffer)];
};
const attribute = (key: string, value: number[]) => [...bytes(1, key), ...bytes(2, value)];
const text = (value: string) => bytes(1, value);
const START = 1_790_000_000_000_000_000n;
const ID = new Uint8Array(16).fill(0xab);
const CHAT: number[][] = [
  attribute("gen_ai.operation.name", text("chat")),
  attribute("gen_ai.request.model", text("gpt-4")),
  attribute("gen_ai.usage.input_tokens", number(3, 12n)),
  attribute("gen_ai.request.seed", number(3, -5n)),
];
const span = (attributes: number[][]) => [
  ...bytes(1, ID),
  ...bytes(2, ID.slice(0, 8)),
  ...number(6, 3n), // kind, which is not read
  ...bytes(5, "chat gpt-4"),
  ...fixed64(7, START),
  ...fixed64(8, START + 1_500_000_000n),
  ...attributes.flatMap((each) => bytes(9, each)),
  ...bytes(11, [...bytes(2, "an event"), ...bytes(3, attribute("x", bytes(5, bytes(1, text("y")))))]),
  ...bytes(15, [...bytes(2, "it failed"), ...number(3, 2n)]), // the code may stand behind the message
];
const batch = (...spans: number[][]) =>
  Uint8Array.from(
    bytes(1, [
      ...bytes(1, bytes(1, attribute("service.name", text("shop")))),
      ...bytes(2, [...bytes(1, bytes(1, "a scope")), ...spans.flatMap((each) => bytes(2, each))]),
    ]),
  );
const read = (body: Uint8Array) => readTraces(body, { most: 10, turn: takingTurns() });
const send = (path: string, raw: Uint8Array<ArrayBuffer>, headers: Record<string, string> = {}) =>
  app.call("POST", path, undefined, { raw, headers: { "content-type": "application/x-protobuf", ...headers } });

test("a request in protobuf is the same as in JSON", async () => {
  expect(await read(batch(span(CHAT)))).toEqual({
    resourceSpans: [
      {
        resource: { attributes: [{ key: "service.name", value: { stringValue: "shop" } }] },
        scopeSpans: [
          {
            spans: [
              {
                traceId: "ab".repeat(16),
                spanId: "ab".repeat(8),
                name: "chat gpt-4",
                startTimeUnixNano: String(START),
                endTimeUnixNano: String(START + 1_500_000_000n),
                attributes: [
                  { key: "gen_ai.operation.name", value: { stringValue: "chat" } },
                  { key: "gen_ai.request.model", value: { stringValue: "gpt-4" } },
                  { key: "gen_ai.usage.input_tokens", value: { intValue: "12" } },
                  { key: "gen_ai.request.seed", value: { intValue: "-5" } },
                ],
                events: [
                  {
                    name: "an event",
                    attributes: [{ key: "x", value: { arrayValue: { values: [{ stringValue: "y" }] } } }],
                  },
                ],
                status: { code: 2 },
              },
            ],
          },
        ],
      },
    ],
  });
});

test("spans are received where exporters send them, plain and with gzip", async () => {
  const listed = async () => (await app.call("GET", "/v1/traces")).body.data;
  const body = batch(span(CHAT));
  const answer = await send("/v1/traces", body);
  expect([answer.status, answer.body, answer.headers.get("content-type")]).toEqual([200, "", "application/x-protobuf"]);
  expect(await listed()).toMatchObject([{ source: "otlp", model: "gpt-4", status: 500, prompt_tokens: 12 }]);
  for (const path of ["/v1/traces", "/v1/otlp/v1/traces"])
    expect((await send(path, gzipSync(body), { "content-encoding": "gzip" })).status).toBe(200);
  expect(await listed()).toHaveLength(1); // the same span
  const json = gzipSync(JSON.stringify({ resourceSpans: [] }));
  const headers = { "content-type": "application/json", "content-encoding": "gzip" };
  expect((await app.call("POST", "/v1/traces", undefined, { raw: json, headers })).body).toEqual({});
});

test("Langfuse's SDK sends a key as user and password, to a path of its own", async () => {
  const generation = span([
    attribute("langfuse.observation.type", text("generation")),
    attribute("langfuse.observation.model.name", text("claude")),
    attribute("langfuse.observation.usage_details", text('{"input":3,"output":4}')),
    attribute("langfuse.observation.input", text('[{"role":"user","content":"hi"}]')),
  ]);
  generation[3] = 0x01; // another id of the trace
  const path = "/api/public/otel/v1/traces";
  const basic = (user: string) => ({ authorization: `Basic ${Buffer.from(user).toString("base64")}` });
  const raw = batch(generation);
  const key = app.keyA;
  expect((await send(path, raw, basic(`pk-lf-1:${key}`))).status).toBe(200);
  expect((await send(path, raw, basic(`${key}:${key}`))).status).toBe(200);
  expect((await send("/v1/otlp/v1/traces", raw, basic("pk-lf-1:sk-lf-2"))).status).toBe(401);
  const trace = (await app.call("GET", "/v1/traces?q=hi")).body.data[0];
  expect(trace).toMatchObject({ model: "claude", prompt_tokens: 3, completion_tokens: 4 });
  expect((await app.call("GET", "/v1/models", undefined, { headers: basic(`a:${key}`) })).status).toBe(401);
});

test("a body that is too long after gzip, cut off, or no protobuf is refused", async () => {
  const bomb = gzipSync(new Uint8Array(1_000_000));
  expect(bomb.length).toBeLessThan(2_000);
  expect((await send("/v1/traces", bomb, { "content-encoding": "gzip" })).status).toBe(413);
  const endsWithZeros = Uint8Array.from([...batch(span(CHAT)), 0, 0, 0, 0]); // the length that gzip announces
  const plain = await send("/v1/traces", endsWithZeros, { "content-encoding": "gzip" });
  expect(plain.body.error.message).toBe("The body is not valid gzip");
  const cut = await send("/v1/traces", batch(span(CHAT)).slice(0, -1));
  expect([cut.status, cut.body.error.message]).toEqual([
    400,
    "The body is not ExportTraceServiceRequest in protobuf: the body is cut off",
  ]);
});

test("a span that is not of the form is counted as rejected", async () => {
  const { status, body } = await send("/v1/traces", batch([...bytes(5, "no ids")]));
  expect([status, body]).toEqual([200, expect.stringContaining("Some spans do not have the form")]);
  const partial = writeExported({ rejectedSpans: 300, errorMessage: "x" });
  expect([...partial]).toEqual([0x0a, 6, 0x08, 0xac, 0x02, 0x12, 1, 0x78]);
});

test("depth, values and spans have limits", async () => {
  let nested = text("x");
  for (let i = 0; i < 40; i++) nested = bytes(5, bytes(1, nested));
  expect(read(batch(span([attribute("a", nested)])))).rejects.toThrow("more than 16 levels deep");
  const many = Array.from({ length: 10_001 }, () => attribute("a", []));
  expect(read(batch(span(many)))).rejects.toThrow("more than 10000 values");
  expect(read(batch(...Array.from({ length: 11 }, () => span([]))))).rejects.toThrow("more than 10 spans");
});

test("damaged bodies are read or refused, and never fail otherwise", async () => {
  const random = randomFor("otlp in protobuf");
  const good = batch(span(CHAT), span([attribute("a", bytes(6, bytes(1, attribute("b", text("c")))))]));
  const count = sweep({ quick: 500, full: 20_000 });
  let refused = 0;
  for (let i = 0; i < count; i++) {
    const body = good.slice();
    for (let n = 0; n < 3; n++) body[Math.floor(random() * body.length)] = Math.floor(random() * 256);
    await read(body).catch((error: Error) => {
      if (error.name !== "ProtobufError") throw error;
      refused++;
    });
  }
  expect(refused).toBeGreaterThan(0);
});
