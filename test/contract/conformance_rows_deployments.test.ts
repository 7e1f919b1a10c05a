/** The rows of the conformance review about deployments: each test names its row. */
import { afterEach, expect, setDefaultTimeout, test } from "bun:test";
import { liveOf } from "../../src/resources/serving/deployments/fleet/fleet.ts";
import * as moves from "../../src/resources/serving/deployments/fleet/moves.ts";
import { type DeployingApp, eventsOf, manyDeploying } from "../fake_replicas.ts";
import { fakeClock, until } from "../harness.ts";

setDefaultTimeout(60_000); // each starts processes
const { open, closeAll } = manyDeploying();
afterEach(closeAll);

const at = (id: string, action = "") => `/v1/deployments/${id}${action}`;
const read = async (on: DeployingApp, id: string) => (await on.call("GET", at(id))).body;
const chat = (on: DeployingApp, id: string, model = "d") =>
  on.call("POST", at(id, "/chat/completions"), { model, messages: [{ role: "user", content: "hi" }] });

/** Advances the clock by a second at a time. */
const passes = <B extends object>(on: DeployingApp, clock: ReturnType<typeof fakeClock>, id: string, shown: B) =>
  until(JSON.stringify(shown), async () => {
    clock.advance(1_000);
    on.ctx.wake("deployments.reconcile");
    const body = await read(on, id);
    return Object.entries(shown).every(([name, value]) => body[name] === value) ? body : undefined;
  });

async function parked(on: DeployingApp, more: Record<string, unknown> = {}) {
  const id = await on.deploy({ min_replicas: 0, idle_timeout_seconds: 86_400, ...more });
  await on.reaches(id, "serving");
  const answer = await on.call("POST", at(id, "/park"));
  expect([answer.status, answer.body.parked]).toEqual([200, true]);
  await until("its process to end", () => liveOf(on.ctx, id).replicas.size === 0);
  return id;
}

test("conformance 3: min_replicas above 0 wakes a parked deployment", async () => {
  const on = await open();
  const id = await parked(on);
  const raised = await on.call("PATCH", at(id), { min_replicas: 1 });
  expect([raised.status, raised.body]).toMatchObject([200, { status: "provisioning", parked: false, min_replicas: 1 }]);
  expect(await on.reaches(id, "serving")).toMatchObject({ parked: false, replicas: { desired: 1, ready: 1 } });
  expect(eventsOf(on, id).slice(-2)).toEqual(["deployment.updated", "deployment.serving"]);
});

test("conformance 3: a change of other settings leaves a deployment parked", async () => {
  const on = await open();
  const id = await parked(on);
  expect((await on.call("PATCH", at(id), { max_held_requests: 5 })).body).toMatchObject({ parked: true });
  expect((await on.call("PATCH", at(id), { min_replicas: 0 })).body).toMatchObject({ parked: true });
});

test("conformance 3: raising min_replicas costs credit, as every wake does", async () => {
  const on = await open({ flags: { "billing.local_rate_usd_per_hour": 36 } });
  const id = await parked(on);
  on.ctx.db.$client.run("UPDATE credit_accounts SET balance_micros = 0 WHERE workspace_id = ?", [on.workspaceA]);
  const refused = await on.call("PATCH", at(id), { min_replicas: 1 });
  expect([refused.status, refused.body.error.code]).toEqual([402, "insufficient_credits"]);
  expect(await read(on, id)).toMatchObject({ parked: true, min_replicas: 0 });
});

test("conformance 3: a wake that fails is tried again while min_replicas is above 0", async () => {
  const on = await open({ lives: [{}, { fail: "data" }, {}] });
  const id = await parked(on);
  await on.call("PATCH", at(id), { min_replicas: 1 });
  await until("a third start", () => {
    on.ctx.wake("deployments.reconcile");
    return on.starts().length === 3;
  });
  expect(await on.reaches(id, "serving")).toMatchObject({ parked: false, replicas: { ready: 1 } });
  expect(eventsOf(on, id)).not.toContain("deployment.failed");
});

test("conformance note: park is refused while min_replicas is above 0", async () => {
  const on = await open();
  const id = await on.deploy();
  await on.reaches(id, "serving");
  const refused = await on.call("POST", at(id, "/park"));
  expect([refused.status, refused.body.error.code]).toEqual([400, "unsupported_state"]);
  expect(refused.body.error.message).toContain("min_replicas");
  expect(eventsOf(on, id)).not.toContain("deployment.scaled_to_zero");
});

/** All memory but 1,000 bytes belongs to a deployment that is never parked. */
async function withoutMemory(on: DeployingApp) {
  const total = (await on.call("GET", "/v1/gpu")).body.data[0].memory_total_bytes;
  const other = await on.deploy({ name: "other", parallel: 1, pinned: true });
  await on.reaches(other, "serving");
  on.ctx.db.$client.run("UPDATE gpu_leases SET bytes = ? WHERE holder LIKE ?", [total - 1000, `${other}/%`]);
  return other;
}

test("conformance 20: a wake without memory returns to parked, and its messages are true", async () => {
  const clock = fakeClock();
  const on = await open({ clock, flags: { "gpu.cpu_share": 0.05 } });
  const id = await parked(on, { parallel: 1, wake_timeout_seconds: 4, queue_timeout_seconds: 6 });
  const other = await withoutMemory(on);
  const before = eventsOf(on, id);
  const waiting = chat(on, id);
  await until("the request to be held", () => liveOf(on.ctx, id).held.size === 1);
  await until("the wait for memory", () => moves.current(on.ctx.db, id)?.queueReason?.startsWith("waits for"));
  const again = await passes(on, clock, id, { parked: true });
  expect(again).toMatchObject({ status: "serving", error: null, replicas: { desired: 0, ready: 0 } });
  expect(again.last_error).toContain("The wake found no memory within");
  const refused = await waiting;
  expect([refused.status, refused.headers.get("retry-after")]).toEqual([503, "5"]);
  expect(refused.body.error.message).toContain("waits for");
  expect(refused.body.error.message).not.toContain("100 %");
  expect(eventsOf(on, id)).toEqual(before);
  await on.call("POST", at(other, "/stop"));
  expect((await chat(on, id)).status).toBe(200);
});
