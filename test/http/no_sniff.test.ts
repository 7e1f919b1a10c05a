/**
 * S10: every answer forbids a browser to guess its type. The test kit checks each call of every other test too
 * (`call` of harness.ts, and the walk over the contract on the executable).
 */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { openapi } from "../../src/http/openapi.ts";
import { type DeployingApp, deploying } from "../fake_replicas.ts";
import { until } from "../harness.ts";
import { rawRequest } from "./raw_request.ts";

let app: DeployingApp;
let url = "";
let detectUrl = "";
beforeAll(async () => {
  const flags = { "http.listen": "127.0.0.1:0", "detect.port": 0, "http.cors_origins": ["*"] };
  app = await deploying({ flags, parts: ["http"] });
  const [all, detection] = app.listeners;
  url = all!.url.origin;
  detectUrl = detection!.url.origin;
});
afterAll(() => app.close().then(app.remove));

const sniffable = (name: string, answer: Response) =>
  answer.headers.get("x-content-type-options") === "nosniff" ? [] : [`${name}: ${answer.status}`];

test("S10: each operation of the document, without a key and with one, on both ports", async () => {
  const { paths } = openapi(await app.handle.routes()) as { paths: Record<string, Record<string, unknown>> };
  const found: string[] = [];
  for (const [path, methods] of Object.entries(paths))
    for (const method of Object.keys(methods).map((each) => each.toUpperCase())) {
      const filled = path.replaceAll(/\{\w+\}/g, "none");
      for (const key of [undefined, app.keyA]) {
        const headers = key ? { authorization: `Bearer ${key}`, "x-api-key": key } : {};
        const left = new AbortController();
        const port = path.includes("detect") ? detectUrl : url;
        const answer = await fetch(`${port}${filled}`, { method, headers, redirect: "manual", signal: left.signal });
        found.push(...sniffable(`${method} ${path}`, answer));
        left.abort(); // some of them are streams without end
      }
    }
  expect(found).toEqual([]);
}, 120_000);

test("S10: pages, assets, absent routes, wrong methods, preflights and HEAD", async () => {
  const found: string[] = [];
  const page = await (await fetch(url, { headers: { accept: "text/html" } })).text();
  const asset = /\/assets\/[\w.-]+/.exec(page)?.[0] ?? "/assets/none";
  for (const path of ["/", "/docs", "/openapi.json", "/setup", "/nothing", "/v1/nothing", "/healthz", asset, "/a#b"])
    for (const method of ["GET", "HEAD", "OPTIONS", "PUT", "TRACE"])
      for (const accept of ["text/html", "*/*"]) {
        const headers = { accept, origin: "https://a.test", "access-control-request-method": "POST" };
        found.push(...sniffable(`${method} ${path}`, await fetch(url + path, { method, headers })));
      }
  expect(found).toEqual([]);
});

test("S10: streams of a replica, NDJSON, CSV and a body that is too large", async () => {
  const headers = { authorization: `Bearer ${app.keyA}`, "content-type": "application/json" };
  const post = (path: string, body: unknown) =>
    fetch(url + path, { method: "POST", headers, body: typeof body === "string" ? body : JSON.stringify(body) });
  await app.reaches(await app.deploy(), "serving");
  const chat = { model: "d", messages: [{ role: "user", content: "hi" }] };
  const stream = await post("/v1/chat/completions", { ...chat, stream: true });
  expect([stream.status, stream.headers.get("content-type")]).toEqual([200, "text/event-stream"]);
  const created = (await (await post("/v1/datasets", { name: "rows" })).json()) as { id: string };
  await post(`/v1/datasets/${created.id}/rows`, { rows: [{ a: 1 }] });
  const get = (path: string) => fetch(url + path, { headers });
  const answers = {
    stream,
    whole: await post("/v1/chat/completions", chat),
    csv: await get(`/v1/datasets/${created.id}/rows/export?format=csv`),
    lines: await get(`/v1/datasets/${created.id}/rows/export`),
    audit: await get("/v1/account/audit_log?format=csv"),
    large: await post("/v1/api_keys", `{"name":"${"x".repeat(3_000_000)}"}`),
  };
  expect(answers.large.status).toBe(413);
  for (const [name, answer] of Object.entries(answers)) expect(sniffable(name, answer)).toEqual([]);
  await until("the stream has ended", async () => (await stream.text()).includes("[DONE]"));
});

test("S10: what Bun answers by itself has no body that a browser could show", async () => {
  const found: string[] = [];
  for (const [name, text] of Object.entries({
    "no request": "HELLO\r\n\r\n",
    "long headers": `GET / HTTP/1.1\r\nHost: localhost\r\nX-A: ${"b".repeat(40_000)}\r\n\r\n`,
    "no target": "GET  HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "another version": "GET / HTTP/3.0\r\nHost: localhost\r\n\r\n",
    "two lengths": "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "no host": "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
  })) {
    const { status, headers, body } = await rawRequest(url, text);
    expect(status).toBeGreaterThanOrEqual(400);
    if (body !== "" && !/x-content-type-options: nosniff/i.test(headers)) found.push(`${name}: ${status} ${body}`);
  }
  expect(found).toEqual([]);
});
