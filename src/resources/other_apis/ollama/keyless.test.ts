import { afterAll, beforeAll, expect, test } from "bun:test";
import { type TestApp, testApp } from "../../../../test/harness.ts";

let app: TestApp;
let peer = "127.0.0.1";
let host = "localhost";
beforeAll(async () => {
  const before = testApp();
  const ollama_local_key = (await before.call("GET", "/v1/api_keys")).body.data[0].id;
  await before.close();
  app = testApp({
    dir: before.dir,
    flags: { "http.ollama_local_key": ollama_local_key, "http.cors_origins": ["https://app.example.com"] },
    around: (handle) => (request) => handle(new Request(request.url.replace("localhost", host), request)),
  });
  app.ctx.state.http.listener = { requestIP: () => ({ address: peer, port: 1, family: "IPv4" }) } as never;
});
afterAll(() => app.close().then(app.remove));

const statusOf = async (headers: Record<string, string> = {}, path = "/api/tags") =>
  (await app.call("GET", path, undefined, { key: null, headers })).status;

test("a program of this machine needs no key on Ollama's routes, and on no others", async () => {
  expect([await statusOf(), await statusOf({}, "/v1/models"), await statusOf({}, "/api/detect/none")]).toEqual([
    200, 401, 401,
  ]);
});

test.each([
  ["a proxy", { "x-forwarded-for": "127.0.0.1" }],
  ["a proxy of the standard", { forwarded: "for=127.0.0.1" }],
  ["a page of a website", { origin: "https://evil.example.com" }],
  ["a page of a website that hides its origin", { "sec-fetch-site": "cross-site" }],
])("%s needs a key", async (_, headers) => {
  expect(await statusOf(headers)).toBe(401);
});

test.each([
  ["a page that http.cors_origins names", { origin: "https://app.example.com" }],
  ["an address that a person typed", { "sec-fetch-site": "none" }],
  ["the dashboard itself", { "sec-fetch-site": "same-origin" }],
])("%s needs no key", async (_, headers) => {
  expect(await statusOf(headers)).toBe(200);
});

test("a website whose name leads to this machine needs a key", async () => {
  host = "evil.example.com";
  expect(await statusOf()).toBe(401);
  host = "127.0.0.1:7070";
  expect(await statusOf()).toBe(200);
  host = "localhost";
});

test("another machine needs a key", async () => {
  peer = "192.0.2.7";
  expect(await statusOf()).toBe(401);
  peer = "::ffff:127.0.0.1";
  expect(await statusOf()).toBe(200);
  peer = "127.0.0.1";
});

test("a key that is sent counts, also a wrong one", async () => {
  expect(await statusOf({ authorization: "Bearer vk_wrong" })).toBe(401);
});
