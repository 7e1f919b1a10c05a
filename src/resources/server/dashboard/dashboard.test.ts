import { afterAll, beforeAll, expect, test } from "bun:test";
import { statSync } from "node:fs";
import { gunzipSync } from "node:zlib";
import { type TestApp, testApp } from "../../../../test/harness.ts";
import { loadBundle } from "./bundle.ts";

let app: TestApp;
beforeAll(() => {
  app = testApp();
});
afterAll(() => app.close().then(app.remove));

const HTML = { accept: "text/html,application/xhtml+xml,*/*;q=0.8" };
const open = (path: string, headers: Record<string, string> = HTML) =>
  app.call("GET", path, undefined, { key: null, headers });
const KIB = 1024;

test("every address of a page answers with the page, and an unknown route of the API with its error", async () => {
  for (const path of ["/", "/runs", "/runs/job_1", "/setup?token=x", "/nowhere"]) {
    const { status, body, headers } = await open(path);
    expect({ path, status, isPage: String(body).startsWith("<!doctype html>") }).toEqual({
      path,
      status: 200,
      isPage: true,
    });
    expect(headers.get("content-security-policy")).toContain("default-src 'none'; script-src 'self'; style-src 'self'");
  }
  for (const path of ["/v1/nowhere", "/api/nowhere", "/assets/nowhere.js"])
    expect((await open(path)).status).toBeGreaterThanOrEqual(401);
  expect(await open("/", {})).toMatchObject({ status: 200, body: "Ollama is running" }); // a program, not a browser
  expect(String((await open("/models")).body)).toStartWith("<!doctype html>"); // an alias of the API for programs
  const listed = await app.handle(
    new Request("http://localhost/models", { headers: { authorization: `Bearer ${app.keyA}`, accept: "*/*" } }),
  );
  expect(await listed.json()).toMatchObject({ object: "list" });
  expect((await app.call("POST", "/runs", {}, { headers: HTML })).status).toBe(404);
});

test("the page has no inline code and no inline style", async () => {
  const { index } = await loadBundle();
  expect(index).not.toMatch(/<style|\sstyle=|\son\w+=|<script(?![^>]*\bsrc=)/);
});

test("files are named by their content, kept for ever, and sent compressed", async () => {
  const { assets } = await loadBundle();
  const name = Object.keys(assets).find((each) => each.startsWith("main-")) ?? "";
  const get = (encoding: string) =>
    app.handle(new Request(`http://localhost/assets/${name}`, { headers: { "accept-encoding": encoding } }));
  for (const encoding of ["br", "gzip"]) {
    const { headers } = await get(`${encoding}, deflate`);
    expect(headers.get("content-encoding")).toBe(encoding);
    expect(headers.get("cache-control")).toContain("immutable");
    expect(headers.get("content-type")).toBe("text/javascript; charset=utf-8");
  }
  const plain = await (await get("identity")).text();
  expect(plain).toBe(gunzipSync(await Bun.file(assets[name]?.gzip ?? "").bytes()).toString());
});

test("the first load is at most 60 KiB and everything at most 400 KiB, compressed with gzip", async () => {
  const { index, assets } = await loadBundle();
  const size = (name: string) => statSync(assets[name]?.gzip ?? "").size;
  const first = [...index.matchAll(/\/assets\/([\w.-]+)/g)].map(([, name = ""]) => size(name));
  expect(first.length).toBeGreaterThanOrEqual(3);
  const sum = (sizes: number[]) => sizes.reduce((total, bytes) => total + bytes, index.length);
  expect(sum(first)).toBeLessThanOrEqual(60 * KIB);
  expect(sum(Object.keys(assets).map(size))).toBeLessThanOrEqual(400 * KIB);
});
