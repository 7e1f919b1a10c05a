import { afterEach, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { type DeployingApp, eventsOf, manyDeploying } from "../../../../test/fake_replicas.ts";
import { fakeClock, until } from "../../../../test/harness.ts";
import { durable } from "../../../platform/db/db.ts";
import { liveOf } from "./fleet/fleet.ts";

const YEAR_MS = 365 * 86_400_000;
const CHAT = { model: "d", messages: [{ role: "user", content: "hi" }] };
const { open: app, apps, closeAll } = manyDeploying();
afterEach(closeAll);
const replicas = (on: DeployingApp, id: string) => [...liveOf(on.ctx, id).replicas];
/** A second at a time: the loop looks after each. */
const parks = (on: DeployingApp, clock: ReturnType<typeof fakeClock>, id: string) =>
  until("it to be parked", async () => {
    clock.advance(1_000);
    return (await on.call("GET", `/v1/deployments/${id}`)).body.parked;
  });
const chat = (on: DeployingApp, id: string, more = {}) =>
  on.call("POST", `/v1/deployments/${id}/chat/completions`, { ...CHAT, ...more });

test("a deployment is queued, loads, serves, and is stopped, with one event for each", async () => {
  const on = await app();
  const created = await on.call("POST", "/v1/deployments", { model: "random", name: "d", metadata: { a: "b" } });
  expect(created.status).toBe(201);
  expect(created.body).toMatchObject({
    object: "deployment",
    status: "queued",
    source: "hub",
    endpoint_url: null,
    gpu: { type: "cpu", count: 1 },
    provider: "local",
    total_requests: 0,
    total_cost_usd: 0,
    min_replicas: 1,
    parked: false,
    metadata: { a: "b" },
  });
  const { id } = created.body;
  const serving = await on.reaches(id, "serving");
  expect(serving).toMatchObject({
    endpoint_url: `/v1/deployments/${id}/chat/completions`,
    replicas: { desired: 1, ready: 1 },
    load: { stage: "ready", progress: 1 },
    error: null,
  });
  expect(serving.started_at).toBeString();
  const stopped = await on.call("POST", `/v1/deployments/${id}/stop`);
  expect(stopped.body).toMatchObject({ id, object: "deployment", status: "stopped" });
  expect(stopped.body.stopped_at).toBeString();
  await until("the process to be gone", () => replicas(on, id).length === 0);
  expect((await on.call("POST", `/v1/deployments/${id}/stop`)).body).toEqual(stopped.body);
  expect(eventsOf(on, id)).toEqual(["deployment.created", "deployment.serving", "deployment.stopped"]);
  expect((await on.call("GET", "/v1/gpu")).body.data[0].leases).toEqual([]);
});

test("requests are answered, recorded and counted, and the sums survive a restart", async () => {
  const on = await app();
  const id = await on.deploy();
  await on.reaches(id, "serving");
  const { status, body } = await chat(on, id);
  expect([status, body.object, body.choices[0].message.content]).toEqual([200, "chat.completion", "w0 w1 w2 "]);
  const streamed = await chat(on, id, { stream: true });
  expect(streamed.body).toEndWith("data: [DONE]\n\n");
  const byName = await on.call("POST", "/v1/chat/completions", CHAT);
  expect(byName.status).toBe(200);
  const listed = await until("three records", async () => {
    const { body } = await on.call("GET", `/v1/deployments/${id}/requests`);
    return body.data.length === 3 ? body.data : undefined;
  });
  expect(listed[0]).toMatchObject({
    object: "deployment_request",
    deployment_id: id,
    prompt_tokens: 5,
    completion_tokens: 3,
    status_code: 200,
    error_message: null,
  });
  const { body: metrics } = await on.call("GET", `/v1/deployments/${id}/metrics`);
  expect(metrics).toMatchObject({
    total_requests: 3,
    total_prompt_tokens: 15,
    total_completion_tokens: 9,
    error_rate: 0,
  });
  expect(metrics.avg_latency_ms).toBeGreaterThan(0);
  await durable(on.ctx.db);
  await on.close();
  apps.pop();
  const after = await app({ dir: on.dir });
  const kept = (await after.call("GET", `/v1/deployments/${id}/metrics`, undefined, { key: on.keyA })).body;
  expect(kept).toMatchObject({ total_requests: 3, total_prompt_tokens: 15, total_completion_tokens: 9 });
});

test("a thousand requests during a wake are one load and one event, and all are answered", async () => {
  const clock = fakeClock();
  const on = await app({ clock, lives: [{}, { gate: "" }] });
  const gate = join(on.dir, "go");
  on.relive([{}, { gate }]);
  const id = await on.deploy({ min_replicas: 0, idle_timeout_seconds: 60, max_held_requests: 2000 });
  await on.reaches(id, "serving");
  await parks(on, clock, id);
  await until("the process to be gone", () => replicas(on, id).length === 0);
  expect((await on.call("GET", `/v1/deployments/${id}`)).body).toMatchObject({
    status: "serving",
    replicas: { ready: 0 },
  });

  const requests = Array.from({ length: 1000 }, (_, i) => chat(on, id, { stream: i % 2 === 0 }));
  await on.reaches(id, "provisioning");
  await until("the second start", () => on.starts().length === 2);
  writeFileSync(gate, "");
  const answers = await Promise.all(requests);
  expect(new Set(answers.map((answer) => answer.status))).toEqual(new Set([200]));
  const streams = answers.filter((_, i) => i % 2 === 0).map((answer) => answer.body as string);
  expect(streams.every((text) => text.startsWith(": waking") && text.endsWith("data: [DONE]\n\n"))).toBe(true);
  expect(on.starts()).toHaveLength(2);
  expect(eventsOf(on, id)).toEqual([
    "deployment.created",
    "deployment.serving",
    "deployment.scaled_to_zero",
    "deployment.serving",
  ]);
});

test("a wake that fails goes back to parked without an event; its requests are told", async () => {
  const clock = fakeClock();
  const on = await app({ clock, lives: [{}, { fail: "crash" }, {}] });
  const id = await on.deploy({ min_replicas: 0, idle_timeout_seconds: 60 });
  await on.reaches(id, "serving");
  await parks(on, clock, id);
  const failed = await chat(on, id);
  expect([failed.status, failed.body.error.code]).toEqual([503, "no_capacity"]);
  expect(failed.headers.get("retry-after")).toBe("5");
  expect((await on.call("GET", `/v1/deployments/${id}`)).body).toMatchObject({ status: "serving", parked: true });
  expect(eventsOf(on, id).slice(2)).toEqual(["deployment.scaled_to_zero"]);
  expect((await chat(on, id)).status).toBe(200); // the next one tries again
  expect(eventsOf(on, id).slice(3)).toEqual(["deployment.serving"]);
});

test("a replica that dies mid-stream: an error event in the envelope, unhealthy, one recovery", async () => {
  const on = await app({ lives: [{ words: 9, dieAfter: 4, gapMs: 5 }, {}] });
  const id = await on.deploy();
  await on.reaches(id, "serving");
  const { status, body } = await chat(on, id, { stream: true });
  const events = (body as string).trim().split("\n\n");
  expect(status).toBe(200);
  expect(JSON.parse(events.at(-1)?.slice(6) ?? "").error).toMatchObject({ type: "api_error", code: "worker_failed" });
  expect(body).not.toContain("[DONE]");
  await until("the recovery", () => eventsOf(on, id).filter((type) => type === "deployment.serving").length === 2);
  expect(eventsOf(on, id)).toEqual([
    "deployment.created",
    "deployment.serving",
    "deployment.unhealthy",
    "deployment.serving",
  ]);
  expect((await chat(on, id)).status).toBe(200);
  const records = (await on.call("GET", `/v1/deployments/${id}/requests`)).body.data;
  expect(records.at(-1)).toMatchObject({ status_code: 502 });
});

test("one that never gets up fails after its restarts, with its last words as the error", async () => {
  const on = await app({ lives: [{ fail: "crash" }] });
  const id = await on.deploy();
  const failed = await on.reaches(id, "failed");
  expect(failed.error).toContain("GGML_ASSERT(ne0 > 0) failed");
  expect(on.starts()).toHaveLength(4); // the first and three restarts
  expect(eventsOf(on, id)).toEqual(["deployment.created", "deployment.failed"]);
  const refused = await chat(on, id);
  expect([refused.status, refused.body.error.code]).toEqual([400, "unsupported_state"]);
  on.relive([{}]);
  expect((await on.call("POST", `/v1/deployments/${id}/start`)).body.status).toBe("queued");
  await on.reaches(id, "serving");
});

test("D6 clock: a restart that a wrong clock put a year ahead comes when the clock is right again", async () => {
  const clock = fakeClock();
  const on = await app({ clock, flags: { "serving.restart_backoff_ms": 60_000 } });
  const id = await on.deploy();
  await on.reaches(id, "serving");
  clock.set(YEAR_MS);
  process.kill(replicas(on, id)[0]!.host.worker.pid, "SIGKILL");
  await on.reaches(id, "unhealthy");
  clock.set(-YEAR_MS);
  await until("its restart", async () => {
    clock.advance(replicas(on, id).length === 0 ? 1_000 : 5); // slowly then: the new process would seem too slow
    return on.starts().length > 1 && (await on.call("GET", `/v1/deployments/${id}`)).body.status === "serving";
  });
});

test("S1 permanent fault: bad data is not tried again", async () => {
  const on = await app({ lives: [{ fail: "data" }] });
  const id = await on.deploy();
  expect((await on.reaches(id, "failed")).error).toContain("asked to fail");
  expect(on.starts()).toHaveLength(1);
});

test("a replica that does not decode any more is unhealthy and replaced", async () => {
  const clock = fakeClock();
  const on = await app({
    clock,
    lives: [{ sick: true }, {}],
    flags: { "serving.health_interval_ms": 5000, "serving.health_timeout_ms": 3_000 },
  });
  const id = await on.deploy();
  await on.reaches(id, "serving");
  await until("its replacement", async () => {
    if (on.starts().length < 2) clock.advance(1_000);
    return on.starts().length === 2 && (await on.call("GET", `/v1/deployments/${id}`)).body.status === "serving";
  });
  expect(eventsOf(on, id).slice(1)).toEqual(["deployment.serving", "deployment.unhealthy", "deployment.serving"]);
});

test("too many held requests are 429, one that waits too long is 503 with Retry-After", async () => {
  const clock = fakeClock();
  const on = await app({ clock, lives: [{ gate: "/nonexistent/never" }] });
  const id = await on.deploy({ max_held_requests: 1, wake_timeout_seconds: 30 });
  const first = chat(on, id);
  await on.reaches(id, "provisioning");
  const second = await chat(on, id);
  expect([second.status, second.headers.get("retry-after")]).toEqual([429, "5"]);
  clock.advance(31_000);
  const late = await first;
  expect([late.status, late.body.error.code, late.headers.get("retry-after")]).toEqual([503, "deployment_waking", "5"]);
});

test("the deployment's own route takes its name alone; the workspace's route finds it by name", async () => {
  const on = await app();
  const id = await on.deploy();
  await on.reaches(id, "serving");
  const wrong = await chat(on, id, { model: "other" });
  expect([wrong.status, wrong.body.error.param]).toEqual([404, "/model"]);
  expect((await on.call("POST", "/v1/chat/completions", { ...CHAT, model: "nobody" })).status).toBe(404);
  const foreign = await on.call("POST", "/v1/chat/completions", CHAT, { key: on.keyB });
  expect(foreign.status).toBe(404);
  expect((await on.call("GET", `/v1/deployments/${id}/models`)).body.data[0].id).toBe("d");
});

test("names, replicas and models are checked before anything is queued", async () => {
  const on = await app();
  await on.deploy();
  const code = async (json: object) => {
    const { status, body } = await on.call("POST", "/v1/deployments", { model: "random", name: "e", ...json });
    return [status, body.error?.code, body.error?.param];
  };
  expect(await code({ name: "d" })).toEqual([400, "name_taken", "/name"]);
  expect(await code({ min_replicas: 3, max_replicas: 2 })).toEqual([422, "schema", "/min_replicas"]);
  expect(await code({ model: "nowhere" })).toEqual([404, "resource_not_found", "/model"]);
  expect(await code({ model: "job_nothing", source: "training_job" })).toEqual([404, "resource_not_found", "/model"]);
  expect(await code({ gpu: { gpu_type: "H900" } })).toEqual([422, "schema", "/gpu/gpu_type"]);
  expect(await code({ name: undefined })).toEqual([422, "schema", "/name"]);
});

test("other settings are taken on by a new load; the requests of the meantime wait for it", async () => {
  const on = await app();
  const id = await on.deploy();
  await on.reaches(id, "serving");
  const patched = await on.call("PATCH", `/v1/deployments/${id}`, {
    parallel: 2,
    kv_type: "q8_0",
    idle_timeout_seconds: 9,
    name: "e",
  });
  expect(patched.body).toMatchObject({
    status: "provisioning",
    parallel: 2,
    kv_type: "q8_0",
    idle_timeout_seconds: 9,
    name: "e",
  });
  expect((await chat(on, id, { model: "e" })).status).toBe(200);
  expect(on.starts()).toHaveLength(2);
  const greedy = await on.call("PATCH", `/v1/deployments/${id}`, { min_replicas: 5 });
  expect([greedy.status, greedy.body.error.param]).toEqual([422, "/min_replicas"]);
});

test("while one is parked a process without a model waits for it, and only then", async () => {
  const clock = fakeClock();
  const on = await app({ clock });
  const processes = () => on.ctx.supervisor.live().filter(({ kind }) => kind === "fake_serving");
  const id = await on.deploy({ min_replicas: 0, idle_timeout_seconds: 60 });
  await on.reaches(id, "serving");
  const [first] = processes();
  await parks(on, clock, id);
  const spare = await until("the spare one alone", () => {
    clock.advance(1_000);
    return processes().length === 1 && processes()[0] !== first ? processes()[0] : undefined;
  });
  expect(on.starts()).toHaveLength(1);
  expect((await chat(on, id)).status).toBe(200);
  expect(processes()).toEqual([spare]); // it is the one that serves now
  expect(on.starts()).toEqual([expect.any(Number), spare.pid]);
  await on.call("POST", `/v1/deployments/${id}/stop`);
  await until("nothing to be left", () => processes().length === 0);
});
