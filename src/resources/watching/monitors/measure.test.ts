import { afterEach, expect, test } from "bun:test";
import { eventsOf } from "../../../../test/fake_replicas.ts";
import { jobRow } from "../../../../test/fake_trainers.ts";
import { manyApps, type TestApp } from "../../../../test/harness.ts";
import { deployment, monitoring, PATH, serve } from "../../../../test/monitors_kit.ts";
import { countRows } from "../../../../test/row_counter.ts";
import { newId } from "../../../lib/ids.ts";
import { write } from "../../../platform/db/db.ts";
import type { Gpu } from "../../../platform/machine/hardware.ts";
import { useProbe } from "../../machines/gpu/service.ts";
import * as billing from "../../money/billing/service.ts";
import { trainingJobs, trainingMetrics } from "../../training/training_jobs/table.ts";
import * as traces from "../traces/service.ts";
import { fanOut } from "../webhooks/delivery/fan_out.ts";
import { webhookAttempts, webhookDeliveries } from "../webhooks/table.ts";

const { open, closeAll } = manyApps();
afterEach(closeAll);
const started = () => monitoring(open);

test("a metric of the machine needs the scope admin", async () => {
  const { app } = started();
  const disk = { name: "disk", metric: "disk_free", thresholds: { alert: 1 } };
  expect(await app.call("POST", PATH, disk)).toMatchObject({ status: 403, body: { error: { code: "missing_scope" } } });
  const made = await app.call("POST", PATH, disk, { key: app.adminKey });
  expect(made.status).toBe(201);
  const tested = await app.call("POST", `${PATH}/${made.body.id}/test`, undefined, { key: app.adminKey });
  expect(tested.body).toMatchObject({ object: "monitor.test", level: "ok", samples: null });
  expect(tested.body.value).toBeGreaterThan(1);
});

test("metrics of requests: percentiles of successes, failures without clients that left, tokens of the window", async () => {
  const { app, tested } = started();
  const [one, two] = [await deployment(app, "one"), await deployment(app, "two")];
  serve(app, one, [
    ...Array.from({ length: 10 }, (_, i) => ({ latencyMs: (i + 1) * 10, tokens: 5 })),
    { statusCode: 500, latencyMs: 1 },
    { statusCode: 499, latencyMs: 1e6 },
    { latencyMs: 1e6, tokens: 1000, agoMs: 301_000 },
  ]);
  serve(app, two, [{ latencyMs: 7, tokens: 7 }]);
  const value = async (metric: string, deployment_id?: string) => {
    const { value, samples } = await tested({ metric, ...(deployment_id ? { deployment_id } : {}) });
    return [value, samples];
  };
  expect(await value("latency_p50", one)).toEqual([50, 10]);
  expect(await value("latency_p95", one)).toEqual([100, 10]);
  expect(await value("error_rate", one)).toEqual([1 / 11, 11]);
  expect(await value("tokens", one)).toEqual([50, null]);
  expect(await value("tokens")).toEqual([57, null]);
  expect(await value("error_rate", two)).toEqual([0, 1]);
});

test("monitors of a workspace read its own requests from an index, the newest 50,000 at most", async () => {
  const counting = countRows();
  using _ = { [Symbol.dispose]: counting.stop };
  const { app, tested } = started();
  serve(app, await deployment(app, "one"), [{ latencyMs: 7 }, { statusCode: 500 }]);
  const { sql } = await counting.of(async () => {
    expect(await tested({ metric: "error_rate" })).toMatchObject({ value: 1 / 2, samples: 2 });
    expect(await tested({ metric: "latency_p95" })).toMatchObject({ value: 7, samples: 1 });
  });
  const queries = sql.filter((text) => text.includes('from "deployment_requests"'));
  expect(queries).toHaveLength(2);
  for (const text of queries) {
    const plan = app.ctx.db.$client.query(`EXPLAIN QUERY PLAN ${text}`).all() as { detail: string }[];
    expect(plan.map(({ detail }) => detail).join()).toContain("COVERING INDEX deployment_requests_workspace");
    expect(text).toContain("limit ?");
  }
});

test("a deployment without requests has no data, which the monitor shows as it was told to", async () => {
  const { app, create, get, evaluate } = started();
  const deployment_id = await deployment(app);
  const ids = new Map<string, string>();
  for (const no_data of ["ok", "no_data", "alert"])
    ids.set(no_data, (await create({ name: no_data, metric: "error_rate", deployment_id, no_data })).id);
  await evaluate();
  for (const [expected, id] of ids) expect(await get(id)).toMatchObject({ severity: expected, value: null });
  expect(eventsOf(app, ids.get("alert") ?? "")).toEqual(["monitor.created", "monitor.triggered"]);
});

/** One trace with these scores, all given at one time. */
function score(app: TestApp, deploymentId: string, values: readonly (number | boolean | string)[], name = "quality") {
  const { workspaceA: workspaceId } = app;
  const traceId = newId("trc", app.ctx.clock.now());
  const times = { startedAt: app.ctx.clock.now(), durationMs: 1 };
  traces.record(app.ctx, {
    id: traceId,
    workspaceId,
    source: "chat",
    deploymentId,
    status: 200,
    capture: "none",
    spans: [],
    ...times,
  });
  write(app.ctx.db, () => {
    for (const value of values) traces.addScore(app.ctx, { workspaceId, traceId, name, value, source: "person" });
  });
}

test("metrics of scores: the mean of the window, and the drift against the window before", async () => {
  const { app, clock, tested } = started();
  const [one, two] = [await deployment(app, "one"), await deployment(app, "two")];
  const zeros = (number: number) => Array.from({ length: 100 }, (_, i) => i >= number);
  score(app, one, [50, 50]); // before the reference
  clock.advance(600_000);
  score(app, one, zeros(10));
  clock.advance(60_000);
  score(app, one, zeros(60));
  score(app, one, ["fine"]);
  score(app, one, [50], "other");
  score(app, two, [50]);
  const of = (metric: string) =>
    tested({ metric, score: "quality", deployment_id: one, window_seconds: 59, reference_window_seconds: 540 });
  expect(await of("score_mean")).toMatchObject({ value: 0.4, samples: 100, level: "alert" });
  expect((await of("score_ks")).value).toBeCloseTo(0.5, 12);
  expect((await of("score_psi")).value).toBeCloseTo(0.5 * Math.log(6) - 0.5 * Math.log(0.4 / 0.9), 12);
  expect(await tested({ metric: "score_mean", score: "quality", window_seconds: 59 })).toMatchObject({ samples: 101 });
});

test("failed attempts of webhooks are counted in the window, by endpoint", async () => {
  const { app, clock, create, evaluate, tested } = started();
  const { id: endpoint_id } = (await app.call("POST", "/v1/webhooks", { url: "https://hooks.example.com/a" })).body;
  await create({ name: "source", thresholds: { alert: 1e6 } });
  await evaluate();
  await fanOut(app.ctx);
  const [delivery] = app.ctx.db.select().from(webhookDeliveries).all();
  write(app.ctx.db, (tx) => {
    for (const [number, responseCode, agoMs] of [
      [1, 200, 0],
      [2, 500, 0],
      [3, null, 0],
      [4, 500, 301_000],
    ] as const)
      tx.insert(webhookAttempts)
        .values({
          deliveryId: delivery?.id ?? "",
          number,
          attemptedAt: clock.now() - agoMs,
          trigger: "scheduled",
          durationMs: 1,
          responseCode,
          responseBody: null,
          errorCode: null,
          errorMessage: null,
        })
        .run();
  });
  const failures = { metric: "webhook_failures", thresholds: { alert: 1 } };
  const of = async (json: object) => (await tested({ ...failures, ...json })).value;
  expect(await of({})).toBe(2);
  expect(await of({ endpoint_id })).toBe(2);
  const { id: other } = (await app.call("POST", "/v1/webhooks", { url: "https://hooks.example.com/b" })).body;
  expect(await of({ endpoint_id: other })).toBe(0);
});

const card = (index: number): Gpu => ({
  index,
  uuid: `GPU-${index}`,
  name: "Card",
  type: "card",
  driverVersion: "1",
  memoryTotalMib: 1000,
  memoryUsedMib: 250 * (index + 1),
  utilizationPercent: null,
  temperatureCelsius: 70 + index,
  powerWatts: null,
});

function charge(app: TestApp, usd: number) {
  const rate = { ratePerHourMicros: usd * 1e6, count: 1, remainder: 0 };
  const stretch = { usedMs: 0, ms: 3_600_000, until: app.ctx.clock.now(), ...rate };
  const who = { workspaceId: app.workspaceA, keyId: null, kind: "job" as const, id: "job_spent", label: "A job" };
  write(app.ctx.db, (tx) => billing.charge(tx, billing.billFor({ ...who, ...stretch }), app.ctx.clock.now()));
}

test("devices, charges and credit are measured", async () => {
  const { app, clock, tested: of } = started();
  useProbe(app.ctx, async () => [card(0), card(1)]);
  expect((await of({ metric: "gpu_memory" })).value).toBe(0.5);
  expect((await of({ metric: "gpu_memory", device: "GPU-0" })).value).toBe(0.25);
  expect((await of({ metric: "gpu_temperature" })).value).toBe(71);
  expect(await of({ metric: "gpu_temperature", device: "GPU-9" })).toMatchObject({ value: null, level: "no_data" });
  charge(app, 3);
  expect((await of({ metric: "cost" })).value).toBe(3);
  expect((await of({ metric: "balance" })).value).toBe(97);
  clock.advance(301_000);
  expect((await of({ metric: "cost", window_seconds: 301 })).value).toBe(3);
  expect((await of({ metric: "cost", window_seconds: 300 })).value).toBe(0);
});

test("the reward of a job is the mean over the steps of the window", async () => {
  const { app, clock, tested } = started();
  const row = jobRow(clock.now(), { workspaceId: app.workspaceA, datasetId: null });
  write(app.ctx.db, (tx) => {
    tx.insert(trainingJobs).values(row).run();
    for (const [step, agoMs, values] of [
      [1, 400_000, { reward: 100 }],
      [2, 200_000, { reward: 0.25 }],
      [3, 100_000, { loss: 1 }],
      [4, 0, { reward: 0.75 }],
    ] as const)
      tx.insert(trainingMetrics)
        .values({ jobId: row.id, step, epoch: 0, time: clock.now() - agoMs, values })
        .run();
  });
  const measurement = await tested({ metric: "reward", job_id: row.id, thresholds: { warning: 0.6 } });
  expect(measurement).toMatchObject({ value: 0.5, samples: 2, level: "warning" });
});
