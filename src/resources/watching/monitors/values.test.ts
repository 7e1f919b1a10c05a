import { afterEach, expect, test } from "bun:test";
import { manyApps } from "../../../../test/harness.ts";
import { monitoring, PATH } from "../../../../test/monitors_kit.ts";
import { write } from "../../../platform/db/db.ts";
import type { Severity } from "./policy.ts";
import { monitors, monitorValues } from "./table.ts";
import { pruneValues, recordValue, VALUE_DAYS } from "./values.ts";

const { open, closeAll } = manyApps();
afterEach(closeAll);

const MINUTE = 60_000;

/** A monitor with values at these minutes before now. */
async function recorded(values: readonly [minutesAgo: number, value: number | null, severity: Severity][]) {
  const { app, create } = monitoring(open);
  const { id } = await create({});
  const row = app.ctx.db.select().from(monitors).all()[0];
  if (!row) throw new Error("no monitor");
  const now = app.ctx.clock.now();
  write(app.ctx.db, (tx) => {
    for (const [ago, value, severity] of values)
      recordValue(tx, { ...row, value, severity, samples: 1, evaluatedAt: now - ago * MINUTE });
  });
  const get = (query = "", key = app.keyA) => app.call("GET", `${PATH}/${id}/values${query}`, undefined, { key });
  return { app, id, get, now };
}

test("each evaluation leaves a value, the last of a minute counts, and they are listed oldest first", async () => {
  const { app, get, id } = await recorded([
    [5, 1, "ok"],
    [2, 4, "alert"],
    [2, 5, "alert"],
    [1, null, "no_data"],
  ]);
  const { status, body } = await get();
  expect([status, body.object, body.monitor_id]).toEqual([200, "monitor.values", id]);
  expect(body.data).toMatchObject([
    { value: 1, low: 1, high: 1, severity: "ok" },
    { value: 5, severity: "alert" },
    { value: null, low: null, high: null, severity: "no_data" },
  ]);
  expect((await get("", app.keyB)).status).toBe(404);
  await app.call("DELETE", `${PATH}/${id}`);
  expect(app.ctx.db.select().from(monitorValues).all()).toEqual([]);
});

test("the loop records what it measures", async () => {
  const { app, create, evaluate } = monitoring(open);
  const { id } = await create({});
  await evaluate();
  const { data } = (await app.call("GET", `${PATH}/${id}/values`)).body;
  expect(data).toHaveLength(1);
  expect(data[0].value).not.toBeNull();
});

test("a long window becomes few points: means, extremes and the worst severity", async () => {
  const values = Array.from({ length: 100 }, (_, i) => [i, i, i === 42 ? "alert" : "ok"] as const);
  const { get, now } = await recorded(values.map((each) => [...each]));
  const { data } = (await get("?max_points=10")).body as { data: { low: number; high: number; severity: string }[] };
  expect(data.length).toBeLessThanOrEqual(10);
  expect(data.length).toBeGreaterThanOrEqual(1);
  expect([Math.min(...data.map(({ low }) => low)), Math.max(...data.map(({ high }) => high))]).toEqual([0, 99]);
  expect(data.filter(({ severity }) => severity === "alert")).toHaveLength(1);
  const since = new Date(now - 3 * MINUTE).toISOString();
  expect((await get(`?since=${since}`)).body.data).toHaveLength(4);
  for (const wrong of ["?since=yesterday", "?max_points=0", "?since=2030-01-02T00:00:00Z&until=2030-01-01T00:00:00Z"])
    expect((await get(wrong)).status).toBe(422);
});

test("old values are removed", async () => {
  const { app } = await recorded([
    [VALUE_DAYS * 1_440 + 5, 1, "ok"],
    [1, 2, "ok"],
  ]);
  expect(await pruneValues(app.ctx)).toBe(1);
  expect(app.ctx.db.select().from(monitorValues).all()).toMatchObject([{ value: 2 }]);
});
