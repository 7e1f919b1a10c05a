import { afterEach, expect, test } from "bun:test";
import { manyApps } from "../../../../test/harness.ts";
import { deployment, monitoring, PATH, serve } from "../../../../test/monitors_kit.ts";

const { open, closeAll } = manyApps();
afterEach(closeAll);

const HOUR = 3_600_000;
const LATENCY = { metric: "latency_p50", window_seconds: 600 };

test("a preview counts the times at which a rule would have fired in the last day, and stores nothing", async () => {
  const { app } = monitoring(open);
  const id = await deployment(app);
  const slowAt = (hours: number) => [0, 1, 2].map(() => ({ latencyMs: 900, agoMs: hours * HOUR }));
  const quickAt = (hours: number) => ({ latencyMs: 10, agoMs: hours * HOUR });
  serve(app, id, [
    ...slowAt(20),
    quickAt(18),
    ...slowAt(6),
    quickAt(4),
    { latencyMs: 300, agoMs: 2 * HOUR },
    quickAt(1),
  ]);
  const preview = async (more: object = {}) =>
    await app.call("POST", `${PATH}/preview`, { ...LATENCY, deployment_id: id, thresholds: { alert: 500 }, ...more });
  const { status, body } = await preview();
  expect([status, body.alerts, body.warnings, body.events]).toEqual([200, 2, 0, 2]);
  expect(body.data).toHaveLength(288);
  expect(body.step_seconds).toBe(300);
  expect(new Set(body.data.map((point: { value: number | null }) => point.value))).toEqual(
    new Set([null, 10, 300, 900]),
  );
  expect((await preview({ thresholds: { alert: 500, warning: 200 } })).body).toMatchObject({ alerts: 2, warnings: 1 });
  expect((await preview({ thresholds: { alert: 1_000 } })).body).toMatchObject({ events: 0, alert_seconds: 0 });
  expect((await preview({ evaluations: 1_000 })).body.events).toBe(0); // as long as 8 hours in a row
  expect((await app.call("GET", PATH)).body.data).toEqual([]);
});

test("a preview checks the fields like a creation, and stays in its workspace", async () => {
  const { app } = monitoring(open);
  const id = await deployment(app);
  serve(app, id, [{ latencyMs: 900, agoMs: HOUR }]);
  const preview = async (json: object, key = app.keyA) =>
    await app.call("POST", `${PATH}/preview`, { thresholds: { alert: 1 }, ...json }, { key });
  expect((await preview({ ...LATENCY, thresholds: {} })).body.error.param).toBe("/thresholds/alert");
  expect((await preview({ metric: "score_mean" })).body.error.param).toBe("/score");
  expect((await preview({ ...LATENCY, deployment_id: id }, app.keyB)).status).toBe(404);
  expect((await preview(LATENCY, app.keyB)).body.events).toBe(0);
  expect((await preview(LATENCY)).body.events).toBe(1);
});

test("a gauge is replayed from what monitors recorded", async () => {
  const { app, create, evaluate } = monitoring(open);
  const preview = async () =>
    (await app.call("POST", `${PATH}/preview`, { metric: "balance", thresholds: { alert: 1e9 } })).body;
  expect((await preview()).data).toEqual([]);
  await create({});
  for (let i = 0; i < 4; i++) await evaluate();
  const body = await preview();
  expect([body.data.length, body.events, body.step_seconds]).toEqual([3, 1, 60]);
});
