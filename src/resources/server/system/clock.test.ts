import { afterEach, expect, test } from "bun:test";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { fakeClock, manyApps } from "../../../../test/harness.ts";
import { DAY_MS, HOUR_MS } from "../../../lib/units.ts";
import { loops } from "../../../loops.ts";
import { durable } from "../../../platform/db/db.ts";
import type { LoopName } from "../../../schedules.ts";

const { open, closeAll } = manyApps();
afterEach(closeAll);

const YEAR_MS = 366 * DAY_MS;
const tick = async (app: ReturnType<typeof open>, name: LoopName) =>
  await loops(app.ctx)
    .find((loop) => loop.name === name)
    ?.tick(new AbortController().signal);
const countOf = (app: ReturnType<typeof open>, table: string) =>
  app.ctx.db.$client.query<{ n: number }, []>(`SELECT count(*) AS n FROM ${table}`).get()?.n ?? 0;
const TABLES = ["events", "audit_log", "idempotency_keys"];
const PRUNERS: LoopName[] = ["events.prune", "audit.prune", "idempotency.prune"];

async function filled(app: ReturnType<typeof open>) {
  await app.call("POST", "/v1/api_keys", { name: "x" }, { headers: { "idempotency-key": "one" } });
  await durable(app.ctx.db);
  return TABLES.map((table) => countOf(app, table));
}

test("D11 clock one year ahead: nothing is pruned, and the log says so once", async () => {
  const clock = fakeClock();
  const app = open({ clock, parts: ["clock"] });
  const before = await filled(app);
  clock.set(YEAR_MS);
  for (let i = 0; i < 3; i++) {
    clock.advance(5_000);
    await tick(app, "clock.observe");
    for (const name of PRUNERS) await tick(app, name);
  }
  expect(TABLES.map((table) => countOf(app, table))).toEqual(before);
  expect(app.log.filter((line) => line.includes("The clock is ahead"))).toHaveLength(1);
  clock.set(-YEAR_MS);
  await tick(app, "clock.observe");
  expect(app.log.filter((line) => line.includes("believed again"))).toHaveLength(1);
});

test("D11 time that really passes prunes as before", async () => {
  const clock = fakeClock();
  const app = open({ clock, parts: ["clock"] });
  await filled(app);
  clock.advance(2 * YEAR_MS);
  for (const name of PRUNERS) await tick(app, name);
  expect(TABLES.map((table) => countOf(app, table))).toEqual([0, 0, 0]);
});

test("D11 a restart under a clock that is far ahead believes it after a day of uptime", async () => {
  const clock = fakeClock();
  const first = open({ clock, parts: ["clock"] });
  const before = await filled(first);
  await tick(first, "clock.observe");
  await first.close();
  clock.set(YEAR_MS);
  const second = open({ clock, dir: first.dir, parts: ["clock"] });
  for (const name of PRUNERS) await tick(second, name);
  expect(countOf(second, "idempotency_keys")).toBe(before[2] as number);
  clock.advance(25 * HOUR_MS);
  for (const name of PRUNERS) await tick(second, name);
  expect(TABLES.slice(1).map((table) => countOf(second, table))).toEqual([0, 0]);
});

test("D11 sessions do not expire because the clock jumped", async () => {
  const clock = fakeClock();
  const app = open({ clock, parts: ["clock"] });
  app.ctx.db.$client.run(
    `INSERT INTO sessions (id, workspace_id, status, env, volumes, network, timeout_seconds, idle_seconds, exec_count,
      expires_at, used_at, metadata, created_at, updated_at)
     VALUES ('ses_1', ?, 'ready', '', '[]', 0, 3600, 3600, 0, ?, ?, '{}', 0, 0)`,
    [app.workspaceA, clock.now() + HOUR_MS, clock.now()],
  );
  mkdirSync(join(app.dir, "sessions", "ses_1", "incoming"), { recursive: true });
  const status = () => app.ctx.db.$client.query<{ status: string }, []>("SELECT status FROM sessions").get()?.status;
  clock.set(YEAR_MS);
  await tick(app, "sessions.reconcile");
  expect(status()).toBe("ready");
  clock.advance(2 * HOUR_MS);
  await tick(app, "sessions.reconcile");
  expect(status()).not.toBe("ready");
});
