import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { join } from "node:path";
import { createRequestHandler } from "../../src/workers/serving/http.ts";
import { toServed } from "../../src/workers/serving/request.ts";
import { makeEncoder } from "../encoders.ts";
import { type TestApp, tempDir, testApp } from "../harness.ts";
import { pretendServing } from "../pretend_replica.ts";
import { BASIC, DELIBERATE } from "./cases/basic.ts";
import { CHATS } from "./cases/chats.ts";
import { FIELDS } from "./cases/fields.ts";
import type { Post } from "./cases/kit.ts";
import { MESSAGES } from "./cases/messages.ts";
import { EMBEDDINGS, RERANKS, TEXTS } from "./cases/texts.ts";
import { closeEngines, testEngine } from "./engines.ts";

setDefaultTimeout(60_000);
let post: Post;
let postRanker: Post;
const apps: TestApp[] = [];
beforeAll(async () => {
  post = await serving(join(import.meta.dir, "../../models/verk-tiny.gguf"));
  postRanker = await serving(makeEncoder(tempDir(), { pooling: "rank" }));
});
afterAll(async () => {
  for (const app of apps) await app.close().then(app.remove);
  await closeEngines();
});

/** A server whose only deployment serves this file. */
async function serving(file: string): Promise<Post> {
  const app = testApp({ flags: { "http.rate_limit_per_second": 0, "http.cors_origins": ["localhost"] } });
  apps.push(app);
  const served = toServed(await testEngine(file, { contextLength: 512, parallel: 4 }), "mdl_tiny");
  const { body } = await app.call("POST", "/v1/deployments", { model: "owner/tiny", name: "tiny" });
  const never = new AbortController().signal;
  const worker = (report: (message: { request: string }) => void) => createRequestHandler(served, report, never).fetch;
  pretendServing(app, body.id, { parallel: 4, worker });
  const { key } = app.keyOf("alpha", ["*", "metrics"]);
  return async (path, json, headers = {}) => {
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
}

const CASES = [...BASIC, ...CHATS, ...FIELDS, ...TEXTS, ...RERANKS, ...EMBEDDINGS, ...MESSAGES, ...DELIBERATE];

test("a program for OpenAI or llama.cpp gets what it expects of each call", async () => {
  const failed: string[] = [];
  for (const each of CASES) {
    const [name, run] = each;
    if (
      !(await run(RERANKS.includes(each) ? postRanker : post).catch((error) => failed.push(`${name}: ${error}`) === 0))
    )
      failed.push(name);
  }
  expect(failed).toEqual([]);
  expect(CASES.length - DELIBERATE.length).toBeGreaterThanOrEqual(143);
});
