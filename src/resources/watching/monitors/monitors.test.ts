import { afterEach, expect, test } from "bun:test";
import { eventsOf } from "../../../../test/fake_replicas.ts";
import { violations } from "../../../../test/fault/invariants.ts";
import { atEveryFailpoint, manyApps, type Options } from "../../../../test/harness.ts";
import { BALANCE, deployment, monitoring, never, PATH, serve } from "../../../../test/monitors_kit.ts";
import { durable } from "../../../platform/db/db.ts";
import { fanOut } from "../webhooks/delivery/fan_out.ts";
import { evaluateDue, pruneHistory } from "./evaluate.ts";
import { monitors } from "./table.ts";

const { open, closeAll } = manyApps();
afterEach(closeAll);
const started = (options: Options = {}) => monitoring(open, options);

test("a monitor is created with defaults, read, listed, changed and deleted in its own workspace", async () => {
  const { app, create, get } = started();
  const made = await create({ metadata: { team: "a" } });
  expect(made).toMatchObject({
    object: "monitor",
    name: "m",
    metric: "balance",
    unit: "usd",
    comparison: "below",
    severity: "no_data",
    window_seconds: 300,
    evaluations: 1,
    recovery_evaluations: 1,
    no_data: "no_data",
    min_samples: 1,
    thresholds: { alert: 1, warning: null, alert_recovery: null, warning_recovery: null },
    value: null,
    muted_until: null,
    evaluated_at: null,
    metadata: { team: "a" },
  });
  expect(made.id).toStartWith("mon_");
  expect(await get(made.id)).toEqual(made);
  expect((await app.call("GET", PATH)).body.data).toEqual([made]);
  expect((await app.call("GET", `${PATH}?severity=alert`)).body.data).toEqual([]);
  const patched = await app.call("PATCH", `${PATH}/${made.id}`, {
    name: "n",
    thresholds: { warning: 5 },
    evaluations: 2,
  });
  expect(patched.body).toMatchObject({ name: "n", evaluations: 2, thresholds: { alert: null, warning: 5 } });
  for (const method of ["GET", "DELETE"])
    expect((await app.call(method, `${PATH}/${made.id}`, undefined, { key: app.keyB })).status).toBe(404);
  expect((await app.call("DELETE", `${PATH}/${made.id}`)).body).toEqual({
    id: made.id,
    object: "monitor",
    deleted: true,
  });
  expect((await app.call("GET", `${PATH}/${made.id}`)).status).toBe(404);
  expect(eventsOf(app, made.id)).toEqual(["monitor.created", "monitor.updated", "monitor.deleted"]);
});

test("an Idempotency-Key makes one monitor; a name that exists is taken", async () => {
  const { app } = started();
  const again = () => app.call("POST", PATH, BALANCE, { headers: { "idempotency-key": "k" } });
  expect((await again()).body.id).toBe((await again()).body.id);
  expect((await app.call("POST", PATH, BALANCE)).body.error).toMatchObject({ code: "name_taken", param: "/name" });
  expect((await app.call("POST", PATH, BALANCE, { key: app.keyB })).status).toBe(201);
});

test.each([
  ["no threshold", { thresholds: {} }, 422, "/thresholds/alert"],
  ["a warning beyond the alert", { thresholds: { alert: 5, warning: 1 } }, 422, "/thresholds/alert"],
  [
    "a recovery without its threshold",
    { thresholds: { alert: 5, warning_recovery: 1 } },
    422,
    "/thresholds/warning_recovery",
  ],
  ["an unknown metric", { metric: "mood" }, 422, "/metric"],
  ["a window of nothing", { window_seconds: 0 }, 422, "/window_seconds"],
  ["a target that the metric does not take", { deployment_id: "dep_1" }, 422, "/deployment_id"],
  ["a reward without a job", { metric: "reward" }, 422, "/job_id"],
  ["a score without a name", { metric: "score_mean" }, 422, "/score"],
  ["a deployment that does not exist", { metric: "latency_p95", deployment_id: "dep_1" }, 404, "/deployment_id"],
  ["a job that does not exist", { metric: "reward", job_id: "job_1" }, 404, "/job_id"],
  ["an endpoint that does not exist", { metric: "webhook_failures", endpoint_id: "whk_1" }, 404, "/endpoint_id"],
  [
    "online evaluation of another metric",
    { online_evaluation: { evaluator: "e", sample_percent: 5 } },
    422,
    "/online_evaluation",
  ],
])("%s is refused and names the field", async (_what, json, status, param) => {
  const { app } = started();
  const answer = await app.call("POST", PATH, { ...BALANCE, ...json });
  expect([answer.status, answer.body.error.param]).toEqual([status, param]);
});

test("a workspace has as many monitors as the operator allows", async () => {
  const { app, create } = started({ flags: { "monitors.max_per_workspace": 1 } });
  await create({});
  expect((await app.call("POST", PATH, { ...BALANCE, name: "n" })).body.error.code).toBe("quota_exceeded");
});

test("slow answers trigger a monitor, fast ones let it recover, and the history has both with their events", async () => {
  const { app, clock, create, get, evaluate } = started();
  const id = await deployment(app);
  const rule = {
    metric: "latency_p95",
    deployment_id: id,
    thresholds: { alert: 1000, warning: 500, alert_recovery: 800 },
  };
  const made = await create({ ...rule, evaluations: 2, window_seconds: 60 });
  serve(
    app,
    id,
    Array.from({ length: 20 }, (_, i) => ({ latencyMs: i < 18 ? 10 : 2000 })),
  );
  await evaluate();
  expect(await get(made.id)).toMatchObject({ severity: "ok", value: 2000, samples: 20 });
  await evaluate();
  expect(await get(made.id)).toMatchObject({ severity: "alert" });
  clock.advance(60_000);
  serve(
    app,
    id,
    Array.from({ length: 20 }, () => ({ latencyMs: 10 })),
  );
  await evaluate();
  expect(await get(made.id)).toMatchObject({ severity: "ok", value: 10 });
  const { data } = (await app.call("GET", `${PATH}/${made.id}/history`)).body;
  expect(
    data.map((each: Record<string, unknown>) => [
      each["previous_severity"],
      each["severity"],
      each["value"],
      each["event"],
    ]),
  ).toEqual([
    ["alert", "ok", 10, "monitor.recovered"],
    ["ok", "alert", 2000, "monitor.triggered"],
    ["no_data", "ok", 2000, null],
  ]);
  const events = (await app.call("GET", "/v1/events?limit=100")).body.data;
  const told = events.filter((event: { type: string }) => /monitor\.(triggered|recovered)/.test(event.type));
  expect(told.map((event: { id: string }) => event.id).sort()).toEqual([data[0].id, data[1].id].sort());
  expect(told.find((event: { type: string }) => event.type === "monitor.triggered").data).toEqual({
    object: "monitor",
    id: made.id,
    name: "m",
    metric: "latency_p95",
    deployment_id: id,
    job_id: null,
    severity: "alert",
    previous_severity: "ok",
    value: 2000,
    threshold: 1000,
  });
  expect((await app.call("GET", `${PATH}/${made.id}/history`, undefined, { key: app.keyB })).status).toBe(404);
  clock.advance(91 * 86_400_000);
  expect(await pruneHistory(app.ctx)).toBe(6); // three changes and the values of three minutes
});

test("a test evaluates now and changes nothing", async () => {
  const { app, create, get } = started();
  const made = await create({ thresholds: { alert: 1e6 } });
  const tested = await app.call("POST", `${PATH}/${made.id}/test`);
  expect(tested.body).toMatchObject({
    object: "monitor.test",
    monitor_id: made.id,
    value: 100,
    level: "alert",
    severity: "alert",
    current_severity: "no_data",
    event: "monitor.triggered",
  });
  expect(await get(made.id)).toEqual(made);
  expect(eventsOf(app, made.id)).toEqual(["monitor.created"]);
  expect((await app.call("GET", `${PATH}/${made.id}/history`)).body.data).toEqual([]);
});

test("webhooks deliver the events of a monitor to endpoints that want them", async () => {
  const { app, create, evaluate } = started();
  const endpoint = async (type: string) =>
    (await app.call("POST", "/v1/webhooks", { url: "https://hooks.example.com/a", event_types: [type] })).body.id;
  const ids = { triggered: await endpoint("monitor.triggered"), recovered: await endpoint("monitor.recovered") };
  const made = await create({ thresholds: { alert: 1e6 } });
  await evaluate();
  await app.call("PATCH", `${PATH}/${made.id}`, { thresholds: { alert: -1e6 } });
  await evaluate();
  await fanOut(app.ctx);
  for (const [kind, id] of Object.entries(ids)) {
    const { data } = (await app.call("GET", `/v1/webhooks/${id}/deliveries`)).body;
    expect(data.map((each: { event_type: string }) => each.event_type)).toEqual([`monitor.${kind}`]);
  }
});

test("a muted monitor emits nothing until the mute ends, and then what is due", async () => {
  const { app, create, get, evaluate } = started();
  const made = await create({ thresholds: { alert: 1e6 } });
  const mute = (json: object) => app.call("POST", `${PATH}/${made.id}/mute`, json);
  expect((await mute({})).status).toBe(422);
  expect((await mute({ seconds: 45 })).body.muted_until).toBe("2026-01-01T00:00:45.000Z");
  await evaluate();
  expect(await get(made.id)).toMatchObject({ severity: "alert" });
  const triggered = () => eventsOf(app, made.id).filter((type) => type === "monitor.triggered").length;
  expect(triggered()).toBe(0);
  await evaluate();
  expect([triggered(), (await get(made.id)).muted_until]).toEqual([1, null]);
  await mute({ until: "2026-02-01T00:00:00.000Z" });
  expect((await mute({ until: null })).body.muted_until).toBeNull();
});

test("a monitor is evaluated once in its interval, at once after a change, and when the clock was set back", async () => {
  const { app, clock, create, get } = started();
  const { id } = await create({});
  const at = async () => (await get(id)).evaluated_at;
  await evaluateDue(app.ctx, never);
  const first = await at();
  clock.advance(29_000);
  await evaluateDue(app.ctx, never);
  expect(await at()).toBe(first);
  await app.call("PATCH", `${PATH}/${id}`, { evaluations: 3 });
  await evaluateDue(app.ctx, never);
  expect(await at()).toBe("2026-01-01T00:00:29.000Z");
  clock.set(-3_600_000);
  await evaluateDue(app.ctx, never);
  expect(await at()).toBe("2025-12-31T23:00:29.000Z");
});

test("a changed rule begins to count again, and a new name does not", async () => {
  const { app, create, get, evaluate } = started();
  const { id } = await create({ thresholds: { alert: 1e6 }, evaluations: 2 });
  const patch = (json: object) => app.call("PATCH", `${PATH}/${id}`, json);
  const severity = async () => (await get(id)).severity;
  await evaluate();
  await patch({ min_samples: 2 });
  await evaluate();
  expect(await severity()).toBe("ok");
  await patch({ name: "renamed", metadata: { a: "b" }, evaluations: 2 });
  await evaluate();
  expect(await severity()).toBe("alert");
});

test("a restart keeps the severity, the measurements in a row and the events that were sent", async () => {
  const { app, clock, create, evaluate } = started();
  const made = await create({ thresholds: { alert: 1e6 }, evaluations: 3 });
  await evaluate();
  await evaluate();
  await app.close();
  const again = open({ clock, dir: app.dir });
  const next = async () => {
    clock.advance(30_000);
    await evaluateDue(again.ctx, never);
    return (await again.call("GET", `${PATH}/${made.id}`)).body.severity;
  };
  expect(await next()).toBe("alert");
  expect(await next()).toBe("alert");
  expect(eventsOf(again, made.id)).toEqual(["monitor.created", "monitor.triggered"]);
});

test("a kill at any point of an evaluation leaves one event for one change", async () => {
  await atEveryFailpoint(async (attempt) => {
    const { app, clock, create } = started();
    const made = await create({ thresholds: { alert: 1e6 } });
    await durable(app.ctx.db);
    clock.advance(30_000);
    await attempt(() => evaluateDue(app.ctx, never));
    await app.close().catch(() => {});
    const again = open({ clock, dir: app.dir });
    clock.advance(30_000);
    await evaluateDue(again.ctx, never);
    expect((await again.call("GET", `${PATH}/${made.id}`)).body.severity).toBe("alert");
    expect(eventsOf(again, made.id)).toEqual(["monitor.created", "monitor.triggered"]);
    expect((await again.call("GET", `${PATH}/${made.id}/history`)).body.data).toHaveLength(1);
    await durable(again.ctx.db);
    expect(violations(again.dir)).toEqual([]);
  });
});

test("a metric that cannot be read is no data, and the other monitors go on", async () => {
  const { app, create, get, evaluate } = started();
  app.ctx.db.$client.run("ALTER TABLE trace_scores RENAME TO lost");
  const broken = await create({ name: "broken", metric: "score_mean", score: "s" });
  const other = await create({ name: "other" });
  await evaluate();
  expect((await get(broken.id)).severity).toBe("no_data");
  expect((await get(other.id)).severity).toBe("ok");
  expect(app.log.join("\n")).toContain("a monitor could not be measured");
});

test("the monitors of a deleted workspace are gone", async () => {
  const { app, create } = started({ loops: ["workspaces.purge"] });
  await create({});
  await app.call("DELETE", `/v1/workspaces/${app.workspaceA}`, undefined, { key: app.adminKey });
  const { purge } = await import("../../../purge.ts");
  await purge(app.ctx);
  expect(app.ctx.db.select().from(monitors).all()).toEqual([]);
});
