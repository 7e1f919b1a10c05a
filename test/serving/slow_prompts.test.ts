// tier: all (serves models)
/** Real workers whose decode calls are slow, hang, or stop altogether. */
import { afterEach, expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { eventsOf } from "../fake_replicas.ts";
import { tempDir, until } from "../harness.ts";
import { makeModel } from "../models.ts";
import { faultyServing } from "./faults.ts";

const LONG_ENOUGH = "Please tell me a story about a small green boat and its captain."; // more than 16 tokens
const SERVED = ["deployment.created", "deployment.serving"];
const RECOVERED = [...SERVED, "deployment.unhealthy", "deployment.serving"];
const apps: Awaited<ReturnType<typeof faultyServing>>[] = [];
const open: typeof faultyServing = async (options) => {
  const app = await faultyServing(options);
  apps.push(app);
  return app;
};
afterEach(async () => {
  for (const app of apps.splice(0)) await app.close().then(app.remove);
});

test("S1 slow prompt: a batch that outlasts health_timeout_ms does not end the replica", async () => {
  const app = await open({ faults: ["slow:1100"] });
  await app.reaches("serving");
  const [first, second] = await Promise.all([app.chat(LONG_ENOUGH), app.chat(`${LONG_ENOUGH} Begin now.`)]);
  expect([first.status, second.status]).toEqual([200, 200]);
  const provedAt = app.replica()?.provedAt ?? 0;
  await until("a health check", () => (app.replica()?.provedAt ?? 0) > provedAt);
  expect(app.starts()).toBe(1);
  expect(eventsOf(app, app.id)).toEqual(SERVED);
});

test("S1 long prompt: nearly the whole context is read under a short health timeout", async () => {
  const app = await open({ flags: { "serving.health_interval_ms": 20, "serving.health_timeout_ms": 800 } });
  await app.reaches("serving");
  const answer = await app.chat("I like red, blue and green boats. ".repeat(90));
  expect(answer.status).toBe(200);
  expect(answer.body.usage.prompt_tokens).toBeGreaterThan(900);
  expect(app.starts()).toBe(1);
});

test("S1 hung decode: the server detects it, and the next replica answers its request", async () => {
  const app = await open({ faults: ["hang:16"] });
  await app.reaches("serving");
  const answer = await app.chat(LONG_ENOUGH);
  expect([answer.status, app.starts()]).toEqual([200, 2]);
  expect(eventsOf(app, app.id)).toEqual(RECOVERED);
  const [record] = await app.records(1);
  expect(record).toMatchObject({ status_code: 200, completion_tokens: 1, error_message: null });
});

test("S1 SIGSTOP: a request without an answer is sent again, a stream that has begun ends with an error", async () => {
  const file = makeModel(tempDir(), { arch: "llama", type: "F32" }); // it never ends an answer by itself
  const app = await open({ file, faults: ["slow:20"] });
  await app.reaches("serving");
  const messages = [{ role: "user", content: "Count." }];
  const begun = await app.handle(
    new Request(`http://localhost/v1/deployments/${app.id}/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${app.keyA}`, "content-type": "application/json" },
      body: JSON.stringify({ model: "d", messages, stream: true, temperature: 0 }),
    }),
  );
  const reader = begun.body!.getReader();
  await reader.read();
  process.kill(app.replica()!.host.worker.pid, "SIGSTOP");
  const waiting = Promise.all([app.chat(LONG_ENOUGH), app.chat(LONG_ENOUGH, { stream: true })]);
  let rest = "";
  for (let next = await reader.read(); !next.done; next = await reader.read()) rest += Buffer.from(next.value);
  const last = rest.trim().split("\n\n").at(-1) ?? "";
  expect(JSON.parse(last.slice("data: ".length)).error).toMatchObject({ code: "worker_failed" });
  const [whole, streamed] = await waiting;
  expect([whole.status, streamed.status, app.starts()]).toEqual([200, 200, 2]);
  expect(streamed.body).toEndWith("data: [DONE]\n\n");
  expect(streamed.body).not.toContain('"error"');
  const records = await app.records(3);
  expect(records.map((record: { status_code: number }) => record.status_code).sort()).toEqual([200, 200, 502]);
});

test("S1 permanent fault: a file without the facts of its architecture fails at once, with a message for users", async () => {
  const file = join(tempDir(), "bogus.gguf");
  const bytes = readFileSync(makeModel(tempDir(), { arch: "llama", type: "F32" }));
  writeFileSync(file, bytes.toString("latin1").replaceAll("llama", "bloom"), "latin1");
  const app = await open({ file });
  const { error } = await app.reaches("failed");
  expect(error).toStartWith(
    "m.gguf cannot be loaded: error loading model hyperparameters: key not found in model: bloom.",
  );
  expect(app.starts()).toBe(1);
  expect(eventsOf(app, app.id)).toEqual(["deployment.created", "deployment.failed"]);
});

test("S1 unknown architecture: the file is refused before a deployment is made", async () => {
  const file = join(tempDir(), "bogus.gguf");
  const bytes = readFileSync(makeModel(tempDir(), { arch: "llama", type: "F32" }));
  writeFileSync(file, bytes.toString("latin1").replaceAll("llama", "fooba"), "latin1");
  const app = await open({ file });
  const { status, body } = await app.call("POST", "/v1/deployments", { model: "m", name: "e" });
  expect([status, body.error.message]).toEqual([
    400,
    expect.stringContaining("The model cannot be served: its architecture fooba is not known to this version"),
  ]);
  expect(app.starts()).toBe(0);
});
