// tier: all (serves models)
import { afterEach, expect, test } from "bun:test";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { deploying, eventsOf, manyDeploying } from "../../../../../test/fake_replicas.ts";
import { atEveryFailpoint, fakeClock, testApp, until } from "../../../../../test/harness.ts";
import { transition } from "../../../../events/lifecycle.ts";
import { durable, write } from "../../../../platform/db/db.ts";
import { register } from "../../models/files/folder.ts";
import { machine as modelMachine } from "../../models/machine.ts";
import * as models from "../../models/service.ts";
import { liveOf, readyOf } from "./fleet.ts";
import * as moves from "./moves.ts";
import { reconcile } from "./reconcile.ts";

const YEAR_MS = 365 * 86_400_000;
const CHAT = { model: "d", messages: [{ role: "user", content: "hi" }] };
const { open: app, apps, closeAll } = manyDeploying();
afterEach(closeAll);

test("stopping turns away those who wait and ends the process", async () => {
  const on = await app({ lives: [{ gate: "/nonexistent/never" }] });
  const id = await on.deploy();
  const waiting = on.call("POST", `/v1/deployments/${id}/chat/completions`, CHAT);
  await until("it to be held", () => liveOf(on.ctx, id).held.size === 1);
  await on.call("POST", `/v1/deployments/${id}/stop`);
  expect((await waiting).body.error).toMatchObject({ code: "unsupported_state" });
  await until("the process to be gone", () => liveOf(on.ctx, id).replicas.size === 0);
});

test("more requests than slots bring a second replica; idleness takes it away", async () => {
  const clock = fakeClock();
  const on = await app({ clock });
  const lasts = join(on.dir, "over");
  on.relive([{ gapMs: 5, lasts }]);
  const id = await on.deploy({ parallel: 1, max_replicas: 2, idle_timeout_seconds: 30 });
  await on.reaches(id, "serving");
  const requests = [1, 2, 3].map(() => on.call("POST", `/v1/deployments/${id}/chat/completions`, CHAT));
  const ready = (count: number) => async () => {
    clock.advance(1_000);
    const { body } = await on.call("GET", `/v1/deployments/${id}`);
    return body.replicas.ready === count;
  };
  await until("a second replica", ready(2));
  writeFileSync(lasts, "");
  expect((await Promise.all(requests)).map((answer) => answer.status)).toEqual([200, 200, 200]);
  await until("one replica again", ready(1));
  expect(eventsOf(on, id)).toEqual(["deployment.created", "deployment.serving"]);
});

test("clock: a jump of a year takes no idle deployment away, and keeps none a year longer", async () => {
  const clock = fakeClock();
  const on = await app({ clock });
  const id = await on.deploy({ min_replicas: 0, idle_timeout_seconds: 30 });
  await on.reaches(id, "serving");
  const isParked = async () => (await on.call("GET", `/v1/deployments/${id}`)).body.parked;
  for (const jump of [YEAR_MS, -2 * YEAR_MS]) {
    clock.set(jump);
    await reconcile(on.ctx);
    expect(await isParked()).toBe(false);
  }
  clock.advance(31_000);
  await until("it to be parked", async () => {
    await reconcile(on.ctx);
    return (await isParked()) || undefined;
  });
});

test("what does not fit waits with a reason, and an idle one is parked to make room", async () => {
  const clock = fakeClock();
  const on = await app({ clock, flags: { "gpu.cpu_share": 0.05 } });
  const big = async (name: string, more = {}) => on.deploy({ name, parallel: 1, ...more });
  const total = (await on.call("GET", "/v1/gpu")).body.data[0].memory_total_bytes;
  /** Claims that size without having it. */
  const fill = (id: string) =>
    on.ctx.db.$client.run("UPDATE gpu_leases SET bytes = ? WHERE holder LIKE ?", [total - 1000, `${id}/%`]);
  const first = await big("first", { min_replicas: 0, idle_timeout_seconds: 86_400 });
  await on.reaches(first, "serving");
  fill(first);
  const second = await big("second", { pinned: true });
  await until("the second to serve", async () => {
    clock.advance(1_000);
    return (await on.call("GET", `/v1/deployments/${second}`)).body.status === "serving";
  });
  expect((await on.call("GET", `/v1/deployments/${first}`)).body.parked).toBe(true);
  expect(eventsOf(on, first)).toContain("deployment.scaled_to_zero");
  fill(second);
  const third = await big("third");
  const queued = await until("the third to wait", async () => {
    clock.advance(1_000);
    const { body } = await on.call("GET", `/v1/deployments/${third}`);
    return body.load.reason?.startsWith("waits for") ? body : undefined;
  });
  expect(queued.load.reason).toContain(second);
  expect(queued.status).toBe("queued");
  await on.call("POST", `/v1/deployments/${second}/stop`);
  await on.reaches(third, "serving");
});

test("after a restart what served serves again, what was waking is parked, and what was parked stays so", async () => {
  const clock = fakeClock();
  const on = await app({ clock });
  const [served, parked, waking] = [
    await on.deploy({ name: "served" }),
    await on.deploy({ name: "parked", min_replicas: 0 }),
    await on.deploy({ name: "waking", min_replicas: 0 }),
  ];
  for (const id of [served, parked, waking]) await on.reaches(id, "serving");
  moves.park(on.ctx, parked);
  moves.park(on.ctx, waking);
  moves.wake(on.ctx, waking, null);
  await durable(on.ctx.db);
  await on.close();
  apps.pop();

  const after = await app({ dir: on.dir });
  const read = async (id: string) =>
    (await after.call("GET", `/v1/deployments/${id}`, undefined, { key: on.keyA })).body;
  await until("it to serve again", async () => (await read(served)).status === "serving");
  expect(await read(parked)).toMatchObject({ status: "serving", parked: true });
  expect(await read(waking)).toMatchObject({ status: "serving", parked: true });
  expect(eventsOf(after, served)).toEqual(["deployment.created", "deployment.serving", "deployment.serving"]);
  expect(eventsOf(after, waking)).toEqual(["deployment.created", "deployment.serving", "deployment.scaled_to_zero"]);
});

test("wherever it crashes, a change of status and its event exist together or not at all", async () => {
  const last = { serving: "deployment.serving", unhealthy: "deployment.unhealthy", failed: "deployment.failed" };
  const crashes = await atEveryFailpoint(async (attempt) => {
    const on = await deploying({ lives: [{ gate: "/nonexistent/never" }] });
    const id = await on.deploy();
    await on.reaches(id, "provisioning");
    await durable(on.ctx.db);
    await attempt(async () => {
      moves.serve(on.ctx, id);
      await durable(on.ctx.db);
      moves.lose(on.ctx, id, { error: "it broke", code: "worker_failed", canRetry: true });
      await durable(on.ctx.db);
      moves.lose(on.ctx, id, { error: "for good", code: "worker_failed", canRetry: false });
      await durable(on.ctx.db);
    });
    await on.close();
    const after = testApp({ dir: on.dir }); // reopen, as a restart would
    const row = moves.current(after.ctx.db, id);
    expect(eventsOf(after, id).at(-1)).toBe(last[row?.status as keyof typeof last] ?? "deployment.created");
    await after.close().then(after.remove);
  });
  expect(crashes).toBeGreaterThan(4);
}, 120_000);

test("those who wait for a model that will never come are told so at once", async () => {
  const on = await app();
  const id = await on.deploy({ model: "nobody/nothing", name: "hopeless" });
  const waiting = on.call("POST", `/v1/deployments/${id}/chat/completions`, { ...CHAT, model: "hopeless" });
  await until("it to be held", () => liveOf(on.ctx, id).held.size === 1);
  const { modelId } = moves.current(on.ctx.db, id) as { modelId: string };
  write(on.ctx.db, (tx) => void models.refuse(tx, modelId, "the hub says no", on.ctx.clock.now()));
  on.ctx.wake("deployments.reconcile");
  expect((await waiting).body.error).toMatchObject({ code: "worker_failed" });
  expect((await on.reaches(id, "failed")).error).toContain("the hub says no");
});

test("a model file that vanishes does not disturb what serves; one that was exchanged is not opened", async () => {
  const on = await app();
  const id = await on.deploy();
  await on.reaches(id, "serving");
  const file = join(on.dir, "models", "random.gguf");
  const content = readFileSync(file);
  rmSync(file);
  const lose = { id: moves.current(on.ctx.db, id)?.modelId as string, now: on.ctx.clock.now() };
  write(on.ctx.db, (tx) => void transition(tx, modelMachine, "lose", lose));
  on.ctx.wake("deployments.reconcile");
  expect((await on.call("POST", `/v1/deployments/${id}/chat/completions`, CHAT)).status).toBe(200);
  expect((await on.call("GET", `/v1/deployments/${id}`)).body.status).toBe("serving");

  writeFileSync(file, content);
  await register(on.ctx, { name: "random", path: "models/random.gguf" });
  writeFileSync(file, content.subarray(0, content.length - 4)); // after the check
  const second = await on.deploy({ name: "second" });
  const queued = await until("it to wait", async () => {
    const { body } = await on.call("GET", `/v1/deployments/${second}`);
    return body.load.reason === null ? undefined : body;
  });
  expect(queued.load.reason).toContain("being checked");
  expect(on.starts()).toHaveLength(1);
  expect(on.woken).toContain("models.scan");
});

test("unpinning reaches the lease that is held", async () => {
  const on = await app();
  const id = await on.deploy({ pinned: true });
  await on.reaches(id, "serving");
  const pinned = async () => (await on.call("GET", "/v1/gpu")).body.data[0].leases[0].pinned;
  expect(await pinned()).toBe(true);
  await on.call("PATCH", `/v1/deployments/${id}`, { pinned: false });
  expect(await pinned()).toBe(false);
});

test("an orderly stop accounts for the time up to it", async () => {
  const clock = fakeClock();
  const on = await app({ clock });
  const id = await on.deploy();
  await on.reaches(id, "serving");
  clock.advance(42_000);
  moves.keepAllAccounts(on.ctx);
  await durable(on.ctx.db);
  await on.close();
  apps.pop();
  const after = await app({ dir: on.dir, lives: [{ gate: "/nonexistent/never" }] });
  const { body } = await after.call("GET", `/v1/deployments/${id}/metrics`, undefined, { key: on.keyA });
  expect(body.uptime_seconds).toBe(42);
});

test("a change of size while it loads is what it loads with", async () => {
  const on = await app({ lives: [{ gate: "/nonexistent/never" }, {}] });
  const id = await on.deploy({ parallel: 2 });
  await until("the first load", () => on.starts().length === 1);
  await on.call("PATCH", `/v1/deployments/${id}`, { parallel: 3 });
  await on.reaches(id, "serving");
  expect(readyOf(liveOf(on.ctx, id)).map((replica) => replica.parallel)).toEqual([3]);
  expect(eventsOf(on, id).filter((type) => type === "deployment.serving")).toHaveLength(1);
});

test("what can never fit is refused at once, new or changed, and what serves goes on", async () => {
  const on = await app({ flags: { "gpu.cpu_share": 0.05 } });
  const huge = { context_length: 512, parallel: 256 };
  const shape = on.ctx.db.$client.query("SELECT shape FROM models WHERE name = 'random'").get() as { shape: string };
  const wide = JSON.stringify({ ...JSON.parse(shape.shape), layers: 900, kv_heads: 64 });
  const id = await on.deploy({ parallel: 1 });
  await on.reaches(id, "serving");
  on.ctx.db.$client.run("UPDATE models SET shape = ? WHERE name = 'random'", [wide]);
  const created = await on.call("POST", "/v1/deployments", { model: "random", name: "huge", ...huge });
  expect([created.status, created.body.error.param]).toEqual([422, "/parallel"]);
  expect(created.body.error.message).toContain("GiB");
  const changed = await on.call("PATCH", `/v1/deployments/${id}`, huge);
  expect(changed.status).toBe(422);
  expect((await on.call("GET", `/v1/deployments/${id}`)).body).toMatchObject({ status: "serving", parallel: 1 });
  const three = await on.call("POST", "/v1/deployments", { model: "random", name: "x", gpu: { gpu_count: 3 } });
  expect([three.status, three.body.error.param]).toEqual([422, "/gpu/gpu_count"]);
  expect(three.body.error.message).toContain("has 1 of type cpu, not 3");
});
