import { afterEach, expect, test } from "bun:test";
import { fakeClock, manyApps, until } from "../../../../../test/harness.ts";
import { pretendServing } from "../../../../../test/pretend_replica.ts";
import { DAY_MS, HOUR_MS, MINUTE_MS } from "../../../../lib/units.ts";
import { durable, write } from "../../../../platform/db/db.ts";
import { prune } from "../prune.ts";
import { deploymentLogs, deploymentTraffic } from "../table.ts";
import { addLine, MOST_LINES } from "./log.ts";
import { addTraffic } from "./record.ts";

const { open, closeAll } = manyApps();
afterEach(closeAll);

async function serving() {
  const clock = fakeClock(Date.UTC(2026, 0, 5, 12, 0, 30));
  const app = open({ parts: ["models"], clock });
  const { body } = await app.call("POST", "/v1/deployments", { model: "verk-tiny", name: "d" });
  const get = async (path: string) => (await app.call("GET", `/v1/deployments/d/${path}`)).body;
  return { app, clock, id: body.id as string, get };
}

const ENDED = { prompt: 10, cached: 4, completion: 20, failed: false, answerMs: 100, firstTokenMs: 10, waitedMs: 6 };
const AT_ONCE = { open: 1, waiting: 0 };

test("requests of a minute and of an hour are one row each, and every period adds them up", async () => {
  const { app, clock, id, get } = await serving();
  const count = (more: object, ageMs: number) =>
    write(app.ctx.db, (tx) => addTraffic(tx, id, { ...ENDED, ...AT_ONCE, ...more }, clock.now() - ageMs));
  for (let i = 0; i < 98; i++) count({}, 0);
  count({ answerMs: 5_000, open: 7, waiting: 3 }, 10 * MINUTE_MS);
  count({ failed: true, answerMs: null, firstTokenMs: null }, 20 * MINUTE_MS);
  count({}, 3 * DAY_MS);
  await durable(app.ctx.db);
  expect(app.ctx.db.select().from(deploymentTraffic).all().length).toBe(4 + 3);

  const hour = await get("traffic");
  expect(hour).toMatchObject({ hours: 1, step_seconds: 60 });
  expect(hour.data.length).toBe(60);
  expect(hour.total).toMatchObject({
    requests: 100,
    failed_requests: 1,
    prompt_tokens: 1_000,
    cached_tokens: 400,
    completion_tokens: 2_000,
    avg_wait_ms: 6,
    most_open: 7,
    most_waiting: 3,
  });
  expect(hour.total.answer_ms.p50).toBeCloseTo(100, -1);
  expect(hour.total.answer_ms.p95).toBeCloseTo(100, -1);
  expect(hour.total.answer_ms.p99).toBeGreaterThan(4_890);
  expect(hour.data.at(-1)).toMatchObject({ time: "2026-01-05T12:00:00.000Z", seconds: 30, requests: 98 });
  expect(hour.data.at(-11).answer_ms.p50).toBeGreaterThan(4_890);
  expect(hour.data.at(-21)).toMatchObject({ requests: 1, failed_requests: 1, answer_ms: null });
  expect(hour.data.at(-2)).toMatchObject({ requests: 0, avg_wait_ms: null, seconds: 60 });

  const week = await get("traffic?hours=168");
  expect(week).toMatchObject({ step_seconds: 3_600, total: { requests: 101, most_open: 7, most_waiting: 3 } });
  expect(week.data.length).toBe(168);

  await prune(app.ctx);
  expect((await get("traffic?hours=168")).total.requests).toBe(101);
  clock.advance(3 * DAY_MS);
  await prune(app.ctx);
  const rows = app.ctx.db.select().from(deploymentTraffic).all();
  expect(rows.map(({ minutes }) => minutes)).toEqual([60, 60, 60]); // minutes are kept for two days
});

test("a request leaves traffic, use by key and model, and its failure a line of the log", async () => {
  const { app, clock, id, get } = await serving();
  pretendServing(app, id);
  const chat = (model: string) =>
    app.call("POST", "/v1/chat/completions", { model, messages: [{ role: "user", content: "hello" }] });
  expect((await chat("d")).status).toBe(200);
  await until("the request", async () => (await get("traffic")).total.requests === 1);
  expect((await get("traffic")).total).toMatchObject({ prompt_tokens: 1, completion_tokens: 1, most_open: 1 });
  expect(await get("live")).toMatchObject({
    open_requests: 0,
    replicas: [{ id: `${id}/1`, state: "ready", sequences: 1, adapter_bytes: 0, shared_with: 0 }],
    adapters: [],
  });

  const used = (await app.call("GET", "/v1/cost/by_use?by=model")).body;
  expect(used.total).toMatchObject({ requests: 1, prompt_tokens: 1, completion_tokens: 1 });
  expect(used.data).toMatchObject([{ group: "verk-tiny", requests: 1, days: [{ day: "2026-01-05", requests: 1 }] }]);
  const byKey = (await app.call("GET", "/v1/cost/by_use?by=key")).body.data;
  const mine = byKey.find(({ requests }: { requests: number }) => requests === 1);
  expect(mine.group).toMatch(/^key_/);
  expect((await app.call("GET", `/v1/cost/by_use?key_id=${mine.group}`)).body.total.requests).toBe(1);
  expect((await app.call("GET", "/v1/cost/by_use?model=other")).body.total).toMatchObject({ requests: 0, cost_usd: 0 });
  expect((await app.call("GET", "/v1/cost/by_use?by=model", undefined, { key: app.keyB })).body.data).toEqual([]);
  clock.advance(HOUR_MS);

  expect((await chat("d:none")).status).toBe(404);
  await until("the line", async () => (await get("logs?level=warn")).data.length === 1);
  const lines = (await get("logs")).data.map(({ text }: { text: string }) => text);
  expect(lines[0]).toMatch(/^req_\w+ was answered with 404: .*no adapter named "none"/);
  expect(lines).toContain("The deployment serves");
  expect(lines.at(-1)).toBe("Created with the model verk-tiny");
  expect((await get("logs?q=THE+DEPLOYMENT+SERVES")).data.length).toBe(1);
  expect((await get("logs?limit=1")).has_more).toBe(true);
});

test("the log of a deployment keeps its newest lines", async () => {
  const { app, id, get } = await serving();
  for (let i = 0; i < MOST_LINES + 200; i++) addLine(app.ctx, id, "info", `line ${i}`);
  addLine(app.ctx, "dep_none", "info", "nothing");
  await durable(app.ctx.db);
  const stored = app.ctx.db.select().from(deploymentLogs).all();
  expect(stored.length).toBeLessThan(MOST_LINES + 64);
  expect((await get("logs?limit=1")).data[0].text).toBe(`line ${MOST_LINES + 199}`);
});
