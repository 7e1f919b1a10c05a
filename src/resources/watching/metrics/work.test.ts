import { afterEach, expect, test } from "bun:test";
import { fakeClock, until } from "../../../../test/harness.ts";
import { type JobsApp, jobsApp } from "../../../../test/jobs_kit.ts";
import { pretendServing } from "../../../../test/pretend_replica.ts";
import { numberIn, parsePrometheus } from "../../../../test/prometheus.ts";
import { addEndpoint, emitCompleted } from "../../../../test/webhooks_kit.ts";
import { durable } from "../../../platform/db/db.ts";
import type { Gpu } from "../../../platform/machine/hardware.ts";
import * as gpu from "../../machines/gpu/service.ts";
import * as billing from "../../money/billing/service.ts";
import { liveOf } from "../../serving/deployments/fleet/fleet.ts";
import * as moves from "../../serving/deployments/fleet/moves.ts";
import { recordStep } from "../../training/training_jobs/state/progress.ts";
import { fanOut } from "../webhooks/delivery/fan_out.ts";
import { record } from "../webhooks/delivery/record.ts";
import { webhookDeliveries } from "../webhooks/table.ts";
import { tick } from "./service.ts";
import { store } from "./store.ts";

const opened: JobsApp[] = [];
afterEach(async () => {
  for (const app of opened) await app.close();
  for (const app of opened.splice(0)) app.remove();
});
async function open() {
  const clock = fakeClock();
  const app = Object.assign(await jobsApp({ clock }), { clock });
  opened.push(app);
  return app;
}
const seenBy = async (app: JobsApp, key = app.keyA) => {
  await durable(app.ctx.db); // a change counts once it is committed
  await store(app.ctx);
  return parsePrometheus((await app.call("GET", "/v1/metrics", undefined, { key })).body);
};

test("a job that runs shows its step and reward, one that waits is counted, one that has ended is gone", async () => {
  const app = await open();
  const [running, ended] = [await app.job(), await app.job(), await app.job()];
  app.moves(running, ["provision", "run"]);
  await app.call("POST", `/v1/training_jobs/${ended}/cancel`);
  const values = { reward: 0.75, loss: -0.5 };
  recordStep(app.ctx, running, { type: "step", step: 7, epoch: 0, values, eta_ms: null, samples: [], alarms: [] });
  const seen = await seenBy(app);
  const job = { workspace: app.workspaceA, job: running };
  expect(numberIn(seen, "verk_training_job_step", job)).toBe(7);
  expect(numberIn(seen, "verk_training_job_total_steps", job)).toBeGreaterThan(0);
  expect(numberIn(seen, "verk_training_job_reward", job)).toBe(0.75);
  expect(numberIn(seen, "verk_training_job_loss", job)).toBe(-0.5);
  expect(seen.get("verk_training_job_info")?.series.map(({ labels }) => labels["status"])).toEqual(["running"]);
  expect(numberIn(seen, "verk_queue_depth", { queue: "training_jobs" })).toBe(1);
  expect(numberIn(seen, "verk_training_jobs", { status: "running" })).toBe(1);
  expect(numberIn(seen, "verk_status_changes_total", { resource: "training_jobs", action: "run" })).toBe(1);
  expect((await seenBy(app, app.keyB)).has("verk_training_job_step")).toBe(false);
});

test("a deployment shows its tokens, who waits for it, and that it was woken", async () => {
  const app = await open();
  const { body } = await app.call("POST", "/v1/deployments", { model: "random", name: "d" });
  pretendServing(app, body.id);
  const messages = [{ role: "user", content: "hi" }];
  const ask = () => app.call("POST", "/v1/chat/completions", { model: "d", messages });
  expect((await ask()).status).toBe(200);
  const own = { workspace: app.workspaceA, deployment: body.id as string };
  let seen = await until("its record", async () => {
    const now = await seenBy(app);
    return numberIn(now, "verk_deployment_requests_total", own) === 1 ? now : undefined;
  });
  expect(numberIn(seen, "verk_deployment_tokens_total", { ...own, kind: "prompt" })).toBe(1);
  expect(numberIn(seen, "verk_deployment_tokens_total", { ...own, kind: "completion" })).toBe(1);
  expect(numberIn(seen, "verk_deployment_requests_total", own)).toBe(1);
  expect(numberIn(seen, "verk_inference_duration_seconds_count", { workspace: app.workspaceA })).toBe(1);
  liveOf(app.ctx, body.id).replicas.clear();
  moves.park(app.ctx, body.id);
  const waiting = [ask(), ask()];
  seen = await until("two requests to be held", async () => {
    const now = await seenBy(app);
    const held = numberIn(now, "verk_deployment_held_requests", own);
    return held === 2 && numberIn(now, "verk_requests_held_total") === 2 ? now : undefined;
  });
  expect(numberIn(seen, "verk_deployment_wakes_total")).toBe(1);
  app.clock.advance(3_600_000);
  await Promise.all(waiting);
}, 60_000);

const card: Gpu = {
  index: 0,
  uuid: "GPU-1",
  name: "NVIDIA H100",
  type: "H100",
  memoryTotalMib: 1_000,
  memoryUsedMib: 100,
  utilizationPercent: 55,
  temperatureCelsius: null,
  powerWatts: 300,
  driverVersion: "1",
};

test("devices are shown as last seen, and a driver that hangs holds up nobody", async () => {
  const app = await open();
  let hang = false;
  let probes = 0;
  const probe = (): Promise<Gpu[]> => {
    probes++;
    return hang ? new Promise(() => {}) : Promise.resolve([card]);
  };
  gpu.useProbe(app.ctx, probe);
  expect((await seenBy(app)).has("verk_gpu_power_watts")).toBe(false); // the first scrape starts the first probe
  const device = { device: "GPU-1", type: "H100" };
  let seen = await until("the first probe", async () => {
    const now = await seenBy(app);
    return now.has("verk_gpu_power_watts") ? now : undefined;
  });
  expect(numberIn(seen, "verk_gpu_memory_used_bytes", device)).toBe(100 * 1_048_576);
  expect(numberIn(seen, "verk_gpu_utilization_ratio", device)).toBe(0.55);
  expect(numberIn(seen, "verk_gpu_power_watts", device)).toBe(300);
  expect(seen.has("verk_gpu_temperature_celsius")).toBe(false);
  expect(probes).toBe(1);
  app.clock.advance(5_000);
  await tick(app.ctx); // metrics are scraped, so devices are probed in between
  expect(probes).toBe(2);
  hang = true;
  app.clock.advance(5_000);
  seen = await seenBy(app, app.keyB);
  expect(numberIn(seen, "verk_gpu_power_watts", device)).toBe(300);
  gpu.useProbe(app.ctx, probe);
  app.clock.advance(600_000);
  probes = 0;
  await tick(app.ctx); // nothing has scraped for a while
  expect(probes).toBe(0);
});

test("leases and who waits for memory are counted, a workspace's own for its key", async () => {
  const app = await open();
  gpu.useProbe(app.ctx, async () => [card]);
  const wanted = { gpuType: "H100", gpuCount: 1, priority: 0, pinned: true, mayEvict: false, kind: "replica" };
  await gpu.acquire(app.ctx, { ...wanted, holder: "a", workspaceId: app.workspaceA, bytes: 1_000 });
  await gpu.acquire(app.ctx, { ...wanted, holder: "b", workspaceId: app.workspaceB, bytes: 2_000 });
  await gpu.acquire(app.ctx, { ...wanted, holder: "c", workspaceId: app.workspaceB, bytes: 400 * 1_048_576 });
  const all = await seenBy(app, app.adminKey);
  const of = (workspace: string) => ({ workspace, device: "GPU-1", kind: "replica" });
  expect(numberIn(all, "verk_gpu_leases", of(app.workspaceA))).toBe(1);
  expect(numberIn(all, "verk_gpu_leased_bytes", of(app.workspaceA))).toBe(1_000);
  expect(numberIn(all, "verk_gpu_leases", of(app.workspaceB))).toBeGreaterThanOrEqual(1);
  const own = await seenBy(app);
  expect(own.get("verk_gpu_leases")?.series).toHaveLength(1);
});

test("delivery attempts are counted by result, and pending deliveries are shown", async () => {
  const app = await open();
  const { id } = addEndpoint(app.ctx, { workspaceId: app.workspaceA });
  for (let i = 0; i < 3; i++) emitCompleted(app.ctx, app.workspaceA);
  await fanOut(app.ctx, new AbortController().signal);
  const none = { responseBody: null, errorMessage: null, attemptedAt: app.clock.now(), endedAt: app.clock.now() };
  const [first, second] = app.ctx.db.select().from(webhookDeliveries).all();
  if (!first || !second) throw new Error("nothing to deliver");
  const before = numberIn(await seenBy(app), "verk_webhook_deliveries_pending", { workspace: app.workspaceA }) ?? 0;
  const ok = { outcome: { answered: true, status: 204 }, responseCode: 204, errorCode: null } as const;
  const lost = { outcome: { answered: false, error: "timeout" }, responseCode: null, errorCode: "timeout" } as const;
  await Promise.all([
    record(app.ctx, { deliveryId: first.id, trigger: "scheduled", result: { ...none, ...ok } }),
    record(app.ctx, { deliveryId: second.id, trigger: "scheduled", result: { ...none, ...lost } }),
  ]);
  const seen = await seenBy(app);
  expect(numberIn(seen, "verk_webhook_attempts_total", { result: "2xx" })).toBe(1);
  expect(numberIn(seen, "verk_webhook_attempts_total", { result: "timeout" })).toBe(1);
  expect(numberIn(seen, "verk_webhook_deliveries_pending")).toBe(before - 1);
  expect((await seenBy(app, app.keyB)).has("verk_webhook_deliveries_pending")).toBe(false);
  expect(first.endpointId).toBe(id);
});

test("the balance is the ledger's", async () => {
  const app = await open();
  billing.grant(app.ctx, { workspaceId: app.workspaceA, usd: 12.5 });
  const balance = billing.balanceMicros(app.ctx, app.workspaceA) / 1e6;
  expect(numberIn(await seenBy(app), "verk_balance_usd", { workspace: app.workspaceA })).toBe(balance);
  expect((await seenBy(app, app.adminKey)).get("verk_balance_usd")?.series.length).toBeGreaterThanOrEqual(3);
});
