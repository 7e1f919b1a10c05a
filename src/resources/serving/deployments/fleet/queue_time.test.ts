import { afterEach, expect, setDefaultTimeout, test } from "bun:test";
import { type DeployingApp, eventsOf, manyDeploying } from "../../../../../test/fake_replicas.ts";
import { fakeClock, until } from "../../../../../test/harness.ts";
import { durable } from "../../../../platform/db/db.ts";
import { liveOf } from "./fleet.ts";
import * as moves from "./moves.ts";

setDefaultTimeout(60_000); // each starts processes
const { open, apps, closeAll } = manyDeploying();
afterEach(closeAll);

type FakeClock = ReturnType<typeof fakeClock>;

/** A deployment that holds nearly all memory and is never parked. */
async function fullMachine(clock: FakeClock) {
  const on = await open({ clock, flags: { "gpu.cpu_share": 0.05 } });
  const total = (await on.call("GET", "/v1/gpu")).body.data[0].memory_total_bytes;
  const first = await on.deploy({ name: "first", parallel: 1, pinned: true });
  await on.reaches(first, "serving");
  on.ctx.db.$client.run("UPDATE gpu_leases SET bytes = ? WHERE holder LIKE ?", [total - 1000, `${first}/%`]);
  return { on, first };
}

const read = async (on: DeployingApp, id: string) => (await on.call("GET", `/v1/deployments/${id}`)).body;

type Shown = { status: string; load: { reason: string | null } };

/** Advances the clock by a second at a time. */
const passes = (on: DeployingApp, clock: FakeClock, id: string, what: (body: Shown) => unknown) =>
  until("the deployment", async () => {
    clock.advance(1_000);
    on.ctx.wake("deployments.reconcile");
    const body = await read(on, id);
    return what(body) ? body : undefined;
  });

test("P7 P16 capacity: what does not fit waits queued, then fails with no_capacity and one deployment.failed", async () => {
  const clock = fakeClock();
  const { on, first } = await fullMachine(clock);
  const id = await on.deploy({ name: "second", parallel: 1, queue_timeout_seconds: 30 });
  const queued = await passes(on, clock, id, ({ load }) => load.reason?.startsWith("waits for"));
  expect(queued).toMatchObject({ status: "queued", error: null, error_code: null, queue_timeout_seconds: 30 });
  const waiting = on.call("POST", `/v1/deployments/${id}/chat/completions`, {
    model: "second",
    messages: [{ role: "user", content: "hi" }],
  });
  await until("it to be held", () => liveOf(on.ctx, id).held.size === 1);
  const failed = await passes(on, clock, id, ({ status }) => status === "failed");
  expect(failed).toMatchObject({ error_code: "no_capacity", endpoint_url: null });
  expect(failed.error).toContain("no memory was free within 30 seconds (waits for");
  expect(eventsOf(on, id)).toEqual(["deployment.created", "deployment.failed"]);
  const refused = await waiting;
  expect([refused.status, refused.body.error.code]).toEqual([503, "no_capacity"]);
  expect(on.ctx.db.$client.query("SELECT * FROM gpu_waits").all()).toEqual([]);
  await on.call("POST", `/v1/deployments/${first}/stop`);
  expect((await on.call("POST", `/v1/deployments/${id}/start`)).body).toMatchObject({ error: null, error_code: null });
  await until("it to serve", async () => {
    on.ctx.wake("deployments.reconcile"); // the clock rests: it would run ahead of the processes
    return (await read(on, id)).status === "serving";
  });
});

test("P7 capacity: the wait survives a restart, and a jump of the time of day does not end it", async () => {
  const clock = fakeClock();
  const { on } = await fullMachine(clock);
  const id = await on.deploy({ name: "second", parallel: 1, queue_timeout_seconds: 60 });
  await passes(on, clock, id, ({ load }) => load.reason?.startsWith("waits for"));
  clock.set(86_400_000);
  const saved = () => moves.current(on.ctx.db, id)?.queuedMs ?? 0;
  await until("its wait to be saved", () => {
    clock.advance(1_000);
    on.ctx.wake("deployments.reconcile");
    return saved() >= 20_000;
  });
  expect((await read(on, id)).status).toBe("queued");
  await durable(on.ctx.db);
  const before = saved();
  await on.close();
  apps.pop();
  const after = await open({ dir: on.dir, clock: fakeClock(clock.now() + 86_400_000) });
  expect(moves.current(after.ctx.db, id)?.queuedMs).toBe(before);
  expect(moves.current(after.ctx.db, id)?.status).not.toBe("failed");
});

test("P7 capacity: with 0 it waits for ever, and PATCH sets a limit", async () => {
  const clock = fakeClock();
  const { on } = await fullMachine(clock);
  const id = await on.deploy({ name: "second", parallel: 1, queue_timeout_seconds: 0 });
  await passes(on, clock, id, ({ load }) => load.reason?.startsWith("waits for"));
  // the clock itself must not jump: the health check of the other replica would fail
  on.ctx.db.$client.run("UPDATE deployments SET queued_ms = ? WHERE id = ?", [30 * 86_400_000, id]);
  await passes(on, clock, id, () => (moves.current(on.ctx.db, id)?.queuedMs ?? 0) > 30 * 86_400_000);
  expect((await read(on, id)).status).toBe("queued");
  const { body } = await on.call("PATCH", `/v1/deployments/${id}`, { queue_timeout_seconds: 900 });
  expect(body.queue_timeout_seconds).toBe(900);
  expect(await passes(on, clock, id, ({ status }) => status === "failed")).toMatchObject({ error_code: "no_capacity" });
});

test("P7 capacity: the default is 900 seconds, and a time below 0 is rejected", async () => {
  const on = await open();
  expect((await on.call("POST", "/v1/deployments", { model: "random", name: "d" })).body).toMatchObject({
    queue_timeout_seconds: 900,
  });
  const bad = await on.call("POST", "/v1/deployments", { model: "random", name: "e", queue_timeout_seconds: -1 });
  expect([bad.status, bad.body.error.param]).toEqual([422, "/queue_timeout_seconds"]);
});
