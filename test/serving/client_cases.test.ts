import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { join } from "node:path";
import { createRequestHandler } from "../../src/workers/serving/http.ts";
import { toServed } from "../../src/workers/serving/request.ts";
import { type TestApp, testApp } from "../harness.ts";
import { pretendServing } from "../pretend_replica.ts";
import { BASIC, DELIBERATE } from "./cases/basic.ts";
import { CHATS } from "./cases/chats.ts";
import { FIELDS } from "./cases/fields.ts";
import type { Post } from "./cases/kit.ts";
import { MESSAGES } from "./cases/messages.ts";
import { EMBEDDINGS, TEXTS } from "./cases/texts.ts";
import { closeEngines, testEngine } from "./engines.ts";

setDefaultTimeout(60_000);
let app: TestApp;
let post: Post;
beforeAll(async () => {
  app = testApp({ flags: { "http.rate_limit_per_second": 0, "http.cors_origins": ["localhost"] } });
  const file = join(import.meta.dir, "../../models/verk-tiny.gguf");
  const served = toServed(await testEngine(file, { contextLength: 512, parallel: 4 }), "mdl_tiny");
  const { body } = await app.call("POST", "/v1/deployments", { model: "owner/tiny", name: "tiny" });
  const never = new AbortController().signal;
  const worker = (report: (message: { request: string }) => void) => createRequestHandler(served, report, never).fetch;
  pretendServing(app, body.id, { parallel: 4, worker });
  const { key } = app.keyOf("alpha", ["*", "metrics"]);
  post = async (path, json, headers = {}) => {
    const [method, where] = path.startsWith("/") ? ["POST", path] : (path.split(" ") as [string, string]);
    const given = Object.entries({ authorization: `Bearer ${key}`, ...headers }).filter(([, value]) => value !== "");
    const sent = Object.fromEntries(given.map(([name, value]) => [name, value === "KEY" ? key : value]));
    const answer = await app.handle(
      new Request(`http://localhost${where}`, {
        method,
        headers: { ...sent, ...(json === undefined ? {} : { "content-type": "application/json" }) },
        ...(json === undefined ? {} : { body: JSON.stringify(json) }),
      }),
    );
    const text = await answer.text();
    const isJson = answer.headers.get("content-type")?.startsWith("application/json");
    return { status: answer.status, headers: answer.headers, body: isJson ? JSON.parse(text) : text };
  };
});
afterAll(async () => {
  await app.close().then(app.remove);
  await closeEngines();
});

const CASES = [...BASIC, ...CHATS, ...FIELDS, ...TEXTS, ...EMBEDDINGS, ...MESSAGES, ...DELIBERATE];

test("a program for OpenAI or llama.cpp gets what it expects of each call", async () => {
  const failed: string[] = [];
  for (const [name, run] of CASES)
    if (!(await run(post).catch((error) => failed.push(`${name}: ${error}`) === 0))) failed.push(name);
  expect(failed).toEqual([]);
  expect(CASES.length - DELIBERATE.length).toBeGreaterThanOrEqual(139);
});
