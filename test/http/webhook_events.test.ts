import { afterEach, expect, test } from "bun:test";
import { isNotNull } from "drizzle-orm";
import { cutDue } from "../../src/resources/data/datasets/stream/snapshots.ts";
import * as jobs from "../../src/resources/training/training_jobs/service.ts";
import { deliver } from "../../src/resources/watching/webhooks/delivery/deliver.ts";
import { fanOut } from "../../src/resources/watching/webhooks/delivery/fan_out.ts";
import { webhookDeliveries } from "../../src/resources/watching/webhooks/table.ts";
import { deploying } from "../fake_replicas.ts";
import { manyTrainings } from "../fake_trainers.ts";
import { fakeClock, type TestApp, until } from "../harness.ts";
import { jobsApp } from "../jobs_kit.ts";
import { startTlsReceiver, TLS_FLAGS } from "../webhooks_kit.ts";

const trainings = manyTrainings();
const never = new AbortController().signal;
const endings: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of endings.splice(0)) await end();
  await trainings.closeAll();
});

/** Two endpoints for all kinds. Where the clock can be moved, the first answers are failures. */
async function listening(app: TestApp, clock?: ReturnType<typeof fakeClock>) {
  const failures = clock ? 3 : 0;
  const receiver = startTlsReceiver((_, count) => new Response(null, { status: count < failures ? 500 : 204 }));
  endings.push(async () => receiver.stop());
  const make = async (path: string) => (await app.call("POST", "/v1/webhooks", { url: receiver.url + path })).body.id;
  const ids: string[] = [await make("/one"), await make("/two")];
  const waiting = () => app.ctx.db.select().from(webhookDeliveries).where(isNotNull(webhookDeliveries.dueAt)).all();
  /** Deliveries that arrived, in the order of the events. A retry has the bytes of the first attempt. */
  const received = async (endpoint = "/one") => {
    await fanOut(app.ctx);
    await until("all to arrive", async () => {
      await deliver(app.ctx, never);
      await app.ctx.state.webhooks.idle();
      clock?.advance(1_000);
      return waiting().length === 0;
    });
    const byId = Map.groupBy(receiver.got, ({ headers }) => headers.get("webhook-id")!);
    for (const [id, got] of byId) {
      expect(new Set(got.map(({ body }) => body)).size).toBe(1);
      expect(Object.keys(JSON.parse(got[0]!.body))).toEqual(["id", "type", "created_at", "data"]);
      expect(JSON.parse(got[0]!.body).id).toBe(id);
    }
    const bodies = new Set(receiver.got.filter(({ path }) => path === endpoint).map(({ body }) => body));
    return [...bodies].map((body) => JSON.parse(body)).sort((a, b) => (a.id < b.id ? -1 : 1));
  };
  return { ids, received };
}

const kinds = (got: { type: string }[]) => got.map(({ type }) => type);

test("deployments: ready, parked, woken and recovered send one event each; a failed wake and steady health send none", async () => {
  const clock = fakeClock(Date.now());
  const flags = { ...TLS_FLAGS, "serving.health_interval_ms": 1_000 };
  const on = await deploying({ clock, flags, lives: [{}, { fail: "crash" }, { words: 9, dieAfter: 4 }, {}] });
  endings.unshift(() => on.close().then(on.remove));
  const { received } = await listening(on, clock);
  const id = await on.deploy({ min_replicas: 0, idle_timeout_seconds: 60 });
  const record = async () => (await on.call("GET", `/v1/deployments/${id}`)).body;
  const chat = () =>
    on.call("POST", `/v1/deployments/${id}/chat/completions`, {
      model: "d",
      messages: [{ role: "user", content: "hi" }],
    });
  await on.reaches(id, "serving");
  await until("idleness to park it", async () => {
    clock.advance(1_000); // its health is reported meanwhile
    return (await record()).parked;
  });
  expect((await chat()).status).toBe(503);
  expect(await record()).toMatchObject({ status: "serving", parked: true });
  const woken = chat(); // the replica that it wakes dies, and the next one answers
  await until("its recovery", async () => {
    clock.advance(10);
    return on.starts().length === 4 && (await record()).status === "serving";
  });
  expect((await woken).status).toBe(200);
  on.relive([{ fail: "data" }]);
  const lost = await on.deploy({ name: "lost" });
  await on.reaches(lost, "failed");
  const got = await received();
  const data = (of: string, status: string, name = "d") => ({ object: "deployment", id: of, status, name });
  expect(got.map(({ type, data }) => ({ type, data }))).toEqual([
    { type: "deployment.serving", data: data(id, "serving") },
    { type: "deployment.scaled_to_zero", data: data(id, "serving") },
    { type: "deployment.serving", data: data(id, "serving") }, // woken
    { type: "deployment.serving", data: data(id, "serving") }, // recovered
    { type: "deployment.failed", data: data(lost, "failed", "lost") },
  ]);
  expect(await received("/two")).toEqual(got);
}, 120_000);

test("jobs: completion and failure send one event each, a cancellation sends none", async () => {
  const on = await trainings.app({
    flags: TLS_FLAGS,
    lives: [{ crashAt: 3 }, {}, { fail: "data" }, { stepMs: 60_000 }],
  });
  const { received } = await listening(on);
  const completed = on.add();
  await on.reaches(completed, "completed");
  const failed = on.add();
  await on.reaches(failed, "failed");
  const running = on.add();
  await on.reaches(running, "running");
  const waiting = on.add();
  for (const id of [running, waiting]) jobs.cancel(on.ctx, on.workspaceA, id);
  for (const id of [running, waiting]) await on.reaches(id, "cancelled");
  const data = (id: string, status: string) => ({ object: "job", id, status, model: "random" });
  expect((await received()).map(({ type, data }) => ({ type, data }))).toEqual([
    { type: "job.completed", data: data(completed, "completed") },
    { type: "job.failed", data: data(failed, "failed") },
  ]);
}, 120_000);

test("datasets: one event for each batch and each snapshot, by hand, by a job's pin and by the rule", async () => {
  const on = await jobsApp({ flags: TLS_FLAGS });
  endings.unshift(() => on.close().then(on.remove));
  await on.dataset("prompt"); // of the kit, not of the test
  const { received, ids } = await listening(on);
  const call = async (path: string, json?: object) => (await on.call("POST", `/v1/datasets${path}`, json)).body;
  const { id } = await call("", { name: "stream", format: "prompt" });
  const append = (count: number) =>
    call(`/${id}/rows`, { rows: Array.from({ length: count }, (_, i) => ({ prompt: `p${i}` })) });
  const first = await append(3);
  await on.call("POST", `/v1/datasets/${id}/rows`, { rows: [{ prompt: "x" }], expected_head_row: 1 }); // refused
  for (let i = 0; i < 2; i++) await call(`/${id}/snapshots`); // nothing is new the second time
  await append(1);
  for (let i = 0; i < 2; i++) await on.job({ dataset: `${id}@latest` });
  await on.call("PATCH", `/v1/datasets/${id}`, { auto_snapshot_rows: 2 });
  await append(2);
  for (let i = 0; i < 2; i++) await cutDue(on.ctx);
  await on.call("POST", `/v1/webhooks/${ids[0]}/test`);
  const got = await received();
  expect(kinds(got)).toEqual([
    "dataset.rows_appended",
    "dataset.snapshot_created",
    "dataset.rows_appended",
    "dataset.snapshot_created",
    "dataset.rows_appended",
    "dataset.snapshot_created",
    "webhook.test",
  ]);
  const rows = { batch_id: first.batch_id, first_row_id: 1, last_row_id: 3, count: 3, head_row: 3 };
  expect(got[0].data).toEqual({ object: "dataset", id, name: "stream", ...rows });
  const snapshot = { object: "dataset_snapshot", id: "@snap-1", dataset_id: id, head_row: 3, row_count: 3 };
  expect(got[1].data).toEqual({ ...snapshot, trigger: "manual" });
  expect([got[3].data.trigger, got[5].data.trigger]).toEqual(["job_pin", "auto"]);
  expect(got[6].data).toEqual({ object: "webhook_endpoint", id: ids[0] });
  expect(await received("/two")).toEqual(got.slice(0, 6));
}, 120_000);
