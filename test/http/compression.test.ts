/** Compressed bodies and answers, requests in one write, and hints about a wrong base URL. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { connect } from "node:net";
import { gunzipSync, gzipSync } from "node:zlib";
import { type TestApp, testApp } from "../harness.ts";
import { chatAnswer, pretendServing } from "../pretend_replica.ts";

let app: TestApp;
let said = "hello";
beforeAll(async () => {
  app = testApp({ parts: ["models"], flags: { "http.max_body_bytes": 1_048_576 } });
  const { body } = await app.call("POST", "/v1/deployments", { model: "verk-tiny", name: "d" });
  pretendServing(app, body.id, { answer: () => chatAnswer(said) });
});
afterAll(() => app.close().then(app.remove));

const MESSAGES = [{ role: "user", content: "hi" }];
const json = async (response: Response) => (await response.json()) as { error: { code: string; message: string } };
const post = async (body: BodyInit, headers: Record<string, string> = {}, path = "/v1/chat/completions") => {
  const all = { authorization: `Bearer ${app.keyA}`, "content-type": "application/json", ...headers };
  return await app.handle(new Request(`http://localhost${path}`, { method: "POST", headers: all, body }));
};
const GZIP = { "content-encoding": "gzip" };

test("a gzip body is read as the body that it holds", async () => {
  const packed = gzipSync(JSON.stringify({ model: "d", messages: MESSAGES }));
  expect((await post(packed, GZIP)).status).toBe(200);
});

test("a gzip body over the limit, one that lies about its size, and one that is none are refused", async () => {
  const bomb = gzipSync(Buffer.alloc(2_000_000, 32));
  expect(bomb.length).toBeLessThan(10_000);
  expect([(await post(bomb, GZIP)).status, app.ctx.state.http.bodyMemory.bytes]).toEqual([413, 0]);
  const lying = Buffer.from(bomb);
  lying.writeUInt32LE(10, lying.length - 4);
  for (const body of [lying, Buffer.from("{}"), bomb.subarray(0, 100)]) {
    const answer = await post(body, GZIP);
    expect([answer.status >= 400 && answer.status < 500, (await json(answer)).error.message]).toEqual([
      true,
      expect.stringMatching(/gzip|larger/),
    ]);
  }
});

test("another encoding is refused, and the answer names the one that is taken", async () => {
  const answer = await post("{}", { "content-encoding": "br" });
  expect([answer.status, answer.headers.get("accept-encoding")]).toEqual([415, "gzip"]);
  expect((await json(answer)).error.message).toContain("send the body with gzip, or uncompressed");
});

test("a long answer is compressed where the client takes gzip, a short one and a stream are not", async () => {
  said = "long ".repeat(50_000);
  const body = JSON.stringify({ model: "d", messages: MESSAGES });
  const packed = await post(body, { "accept-encoding": "br, gzip" });
  expect([packed.headers.get("content-encoding"), packed.headers.get("vary")]).toEqual(["gzip", "accept-encoding"]);
  const text = gunzipSync(await packed.arrayBuffer()).toString();
  expect(JSON.parse(text).choices[0].message.content).toBe(said);
  for (const accepted of ["identity", "gzip;q=0", ""])
    expect((await post(body, { "accept-encoding": accepted })).headers.get("content-encoding")).toBeNull();
  const other = await post(JSON.stringify({ model: "d", input: "hi" }), { "accept-encoding": "gzip" }, "/v1/responses");
  expect(((await other.json()) as { output: [{ content: [{ text: string }] }] }).output[0].content[0].text).toBe(said);
  said = "hello";
  expect((await post(body, { "accept-encoding": "gzip" })).headers.get("content-encoding")).toBeNull();
});

test("a base URL with too much behind /v1 is named as the mistake", async () => {
  for (const path of ["/v1/v1/chat/completions", "/v1/chat/completions/chat/completions", "/v1/responses/models/x"]) {
    const answer = await post("{}", {}, path);
    expect([answer.status, (await json(answer)).error.message]).toEqual([
      404,
      expect.stringContaining("ends with /v1"),
    ]);
  }
  expect((await json(await post("{}", {}, "/v1/nothing"))).error.message).toContain("see /docs");
});

test("17 stop strings are too many, and a list is not called a mistake", async () => {
  const stop = Array.from({ length: 17 }, String);
  const answer = await post(JSON.stringify({ model: "d", messages: MESSAGES, stop }));
  expect((await json(answer)).error.message).toBe("stop: must have at most 16 items");
});

/** Bun closes a connection on which a second request comes while the first one is being answered. */
test("Bun itself does not answer two requests in one write; docs/clients.md says so", async () => {
  const server = Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    async fetch(request) {
      await request.text();
      await new Promise((resolve) => setImmediate(resolve));
      return new Response("answer");
    },
  });
  const one = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}";
  const answers = await new Promise<string>((resolve) => {
    let text = "";
    const socket = connect(server.port as number, "127.0.0.1", () => socket.write(one + one));
    socket.on("data", (data) => {
      text += data;
    });
    socket.on("close", () => resolve(text));
  });
  await server.stop(true);
  expect(answers).toBe("");
});
