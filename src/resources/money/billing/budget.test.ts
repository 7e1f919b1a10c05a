import { afterEach, expect, test } from "bun:test";
import { jobRow } from "../../../../test/fake_trainers.ts";
import { atEveryFailpoint, fakeClock, manyApps, type TestApp, testApp } from "../../../../test/harness.ts";
import { deploymentRow } from "../../../../test/money_deeds.ts";
import { durable, write } from "../../../platform/db/db.ts";
import { liveOf } from "../../serving/deployments/fleet/fleet.ts";
import { keepToBudget } from "../../serving/deployments/fleet/halt.ts";
import * as deploying from "../../serving/deployments/fleet/moves.ts";
import { type DeploymentRow, deployments } from "../../serving/deployments/table.ts";
import { enforceCredit } from "../../training/training_jobs/state/credit.ts";
import * as training from "../../training/training_jobs/state/moves.ts";
import { currentJob } from "../../training/training_jobs/state/rows.ts";
import { type JobRow, trainingJobs } from "../../training/training_jobs/table.ts";
import * as budgets from "./budget.ts";

const { open, closeAll } = manyApps();
afterEach(closeAll);

const RATE = 3_600_000_000; // a dollar a second
/** Charges this machine by the price file. */
const CHARGED = { "billing.local_rate_usd_per_hour": -1 };
const LATE_JANUARY = Date.UTC(2026, 0, 31, 23, 59, 0);

type Key = { id: string; key: string };
const keyWith = async (app: TestApp, monthly_budget_usd: number | null, key = app.keyA): Promise<Key> =>
  (await app.call("POST", "/v1/api_keys", { name: "k", monthly_budget_usd }, { key })).body;
const spentOf = async (app: TestApp, { id }: Key): Promise<number> =>
  (await app.call("GET", "/v1/api_keys?limit=100")).body.data.find((each: Key) => each.id === id).spent_this_month_usd;

function job(app: TestApp, key: Key, more: Partial<JobRow> = {}): string {
  const row = jobRow(app.ctx.clock.now(), { workspaceId: app.workspaceA, datasetId: null, rateMicros: RATE, ...more });
  write(app.ctx.db, (tx) =>
    tx
      .insert(trainingJobs)
      .values({ ...row, apiKeyId: key.id })
      .run(),
  );
  return row.id;
}
const rowOf = (app: TestApp, id: string) => currentJob(app.ctx.db, id) as JobRow;
const running = (app: TestApp) => ({ status: "running" as const, runSince: app.ctx.clock.now() });
const fail = (app: TestApp, id: string) => training.fail(app.ctx, id, { code: "timeout", message: "x", param: null });

function deployment(app: TestApp, key: Key, more: Partial<DeploymentRow> = {}): DeploymentRow {
  const now = app.ctx.clock.now();
  const up = { status: "serving" as const, upSince: now, apiKeyId: key.id, ...more };
  const row = { ...deploymentRow(now, app.workspaceA, RATE), ...up };
  write(app.ctx.db, (tx) => tx.insert(deployments).values(row).run());
  return row;
}

/** A job of the key runs for so many seconds, at a dollar each. */
function spend(app: TestApp, clock: ReturnType<typeof fakeClock>, key: Key, seconds: number) {
  const id = job(app, key, running(app));
  clock.advance(seconds * 1000);
  fail(app, id);
}

test("P14 monthly_budget_usd: a key that has spent its month is refused with 402, and another key of the workspace is not", async () => {
  const clock = fakeClock();
  const app = open({ clock, flags: CHARGED });
  const [key, free] = [await keyWith(app, 5), await keyWith(app, null)];
  const deploy = (by: Key) => app.call("POST", "/v1/deployments", { model: "none", name: "d" }, { key: by.key });
  const train = (by: Key) =>
    app.call("POST", "/v1/training_jobs", { method: "custom", command: "true" }, { key: by.key });
  expect((await deploy(key)).body.error.code).toBe("resource_not_found"); // the model, not the money
  spend(app, clock, key, 5);
  expect([await spentOf(app, key), await spentOf(app, free)]).toEqual([5, 0]);
  for (const ask of [deploy, train]) {
    const { status, body } = await ask(key);
    expect([status, body.error.type, body.error.code]).toEqual([402, "billing_error", "budget_exceeded"]);
    expect(body.error.message).toContain("$5.00 a month");
    expect(body.error.message).toContain("2026-02-01T00:00:00");
    expect((await ask(free)).status).not.toBe(402);
  }
  clock.advance(Date.UTC(2026, 1, 1) - clock.now());
  expect([(await deploy(key)).body.error.code, await spentOf(app, key)]).toEqual(["resource_not_found", 0]);
});

test("M3: keys that a budgeted key makes share its budget, and none of them gets beyond it", async () => {
  const clock = fakeClock();
  const app = open({ clock, flags: CHARGED });
  const parent = await keyWith(app, 10);
  const child = await keyWith(app, 4, parent.key);
  const twin = await keyWith(app, null, parent.key); // as much as its maker
  const grandchild = await keyWith(app, null, child.key);
  const left = (key: Key) => {
    const budget = budgets.tightestBudget(app.ctx, { workspaceId: app.workspaceA, keyId: key.id });
    return budget && budgets.leftOf(budget) / 1e6;
  };
  spend(app, clock, grandchild, 3);
  expect([left(parent), left(child), left(twin), left(grandchild)]).toEqual([7, 1, 7, 1]);
  spend(app, clock, twin, 6);
  expect([left(parent), left(child), left(twin), left(grandchild)]).toEqual([1, 1, 1, 1]);
  spend(app, clock, parent, 1);
  expect([await spentOf(app, parent), await spentOf(app, child), await spentOf(app, twin)]).toEqual([10, 3, 6]);
  for (const key of [parent, child, twin, grandchild]) {
    const { status, body } = await app.call("POST", "/v1/deployments", { model: "m", name: "d" }, { key: key.key });
    expect([status, body.error.code]).toEqual([402, "budget_exceeded"]);
  }
});

test("M3: keys that replace each other make no long chain, and budgets below budgets end somewhere", async () => {
  const app = open({ clock: fakeClock() });
  let key = await keyWith(app, 100);
  const first = key.id;
  for (let i = 0; i < 40; i++) key = await keyWith(app, null, key.key);
  expect(budgets.chainOf(app.ctx.db, key.id).map(({ id }) => id)).toEqual([key.id, first]);
  for (let usd = 99; usd > 0; usd--) {
    const { status, body } = await app.call(
      "POST",
      "/v1/api_keys",
      { name: "k", monthly_budget_usd: usd },
      { key: key.key },
    );
    if (status === 201) key = body;
    else {
      expect([body.error.code, body.error.param]).toEqual(["invalid_request", "/monthly_budget_usd"]);
      expect(budgets.chainOf(app.ctx.db, key.id)).toHaveLength(budgets.MOST_LEVELS);
      return;
    }
  }
  throw new Error("no end");
});

test("M3: what runs over the end of a month is split between the months", async () => {
  const clock = fakeClock(LATE_JANUARY);
  const app = open({ clock });
  const key = await keyWith(app, 1_000);
  spend(app, clock, key, 100);
  expect(await spentOf(app, key)).toBe(40);
  const months = app.ctx.db.$client.query("SELECT month, spent_micros FROM api_key_spending ORDER BY month").values();
  expect(months).toEqual([
    ["2026-01", 60_000_000],
    ["2026-02", 40_000_000],
  ]);
});

test("M3: jobs of a key that has spent its month are paused, those of others go on, and next month they go on too", async () => {
  const clock = fakeClock(LATE_JANUARY);
  const app = open({ clock });
  const [key, other] = [await keyWith(app, 10), await keyWith(app, null)];
  const [mine, waiting, theirs] = [job(app, key, running(app)), job(app, key), job(app, other)];
  const states = () =>
    [mine, waiting, theirs].map((id) => [rowOf(app, id).status, rowOf(app, id).pauseReason] as const);
  clock.advance(9_000);
  enforceCredit(app.ctx);
  expect(states()).toEqual([
    ["running", null],
    ["queued", null],
    ["queued", null],
  ]);
  clock.advance(1_000);
  enforceCredit(app.ctx);
  const paused: [JobRow["status"], JobRow["pauseReason"]] = ["paused", "out of budget"];
  expect(states()).toEqual([paused, paused, ["queued", null]]);
  training.suspend(app.ctx, mine); // its worker has ended
  expect(await app.call("POST", `/v1/training_jobs/${mine}/resume`, undefined, { key: key.key })).toMatchObject({
    status: 402,
    body: { error: { code: "budget_exceeded" } },
  });
  expect(
    (await app.call("POST", `/v1/training_jobs/${waiting}/resume`, undefined, { key: other.key })).body.status,
  ).toBe("queued");
  expect(rowOf(app, waiting).apiKeyId).toBe(other.id); // who resumes it pays
  enforceCredit(app.ctx);
  expect(states()).toEqual([paused, ["queued", null], ["queued", null]]);
  clock.advance(60_000);
  enforceCredit(app.ctx);
  expect(states().map(([status]) => status)).toEqual(["queued", "queued", "queued"]);
});

test("M3: a deployment whose key has spent its month is parked where it may scale to zero, and else stopped", async () => {
  const clock = fakeClock();
  const app = open({ clock, flags: CHARGED });
  const key = await keyWith(app, 10);
  const [zero, one] = [deployment(app, key), deployment(app, key, { minReplicas: 1 })];
  const keep = (row: DeploymentRow) => {
    const now = deploying.current(app.ctx.db, row.id) as DeploymentRow;
    return keepToBudget(app.ctx, now, liveOf(app.ctx, row.id));
  };
  clock.advance(4_000);
  expect([keep(zero), keep(one)]).toEqual([false, false]);
  clock.advance(1_000); // five dollars each
  expect([keep(zero), keep(one)]).toEqual([true, true]);
  expect(deploying.current(app.ctx.db, zero.id)).toMatchObject({ status: "serving", parked: true, upSince: null });
  const stopped = deploying.current(app.ctx.db, one.id);
  expect(stopped).toMatchObject({ status: "stopped", upSince: null, error: expect.stringContaining("monthly budget") });
  expect(await spentOf(app, key)).toBe(10);
  const chat = { model: zero.name, messages: [{ role: "user", content: "hi" }] };
  const woken = await app.call("POST", "/v1/chat/completions", chat, { key: key.key });
  expect([woken.status, woken.body.error.code]).toEqual([402, "budget_exceeded"]);
  const started = await app.call("POST", `/v1/deployments/${one.id}/start`, undefined, { key: key.key });
  expect([started.status, started.body.error.code]).toEqual([402, "budget_exceeded"]);
});

test("M3: requests that are being answered have a minute before the deployment ends", async () => {
  const clock = fakeClock();
  const app = open({ clock });
  const row = deployment(app, await keyWith(app, 1), { minReplicas: 1 });
  const live = liveOf(app.ctx, row.id);
  live.held.add({ resolve: () => {}, reject: () => {} });
  clock.advance(1_000);
  expect(keepToBudget(app.ctx, row, live)).toBe(false);
  clock.advance(59_000);
  expect(keepToBudget(app.ctx, row, live)).toBe(false);
  clock.advance(1_000);
  expect(keepToBudget(app.ctx, row, live)).toBe(true);
});

test("M3: the key that wakes a deployment pays for it", async () => {
  const clock = fakeClock();
  const app = open({ clock });
  const [maker, waker] = [await keyWith(app, null), await keyWith(app, 50)];
  const { id } = deployment(app, maker, { parked: true, upSince: null });
  deploying.wake(app.ctx, id, waker.id);
  deploying.serve(app.ctx, id);
  clock.advance(7_000);
  deploying.park(app.ctx, id);
  expect([await spentOf(app, maker), await spentOf(app, waker)]).toEqual([0, 7]);
});

test("M3: wherever the server is killed, a key has spent what the ledger says", async () => {
  const clock = fakeClock();
  const crashes = await atEveryFailpoint(async (attempt) => {
    const app = testApp({ clock });
    const parent = await keyWith(app, 50);
    const child = await keyWith(app, 20, parent.key);
    const id = job(app, child, running(app));
    await durable(app.ctx.db);
    clock.advance(10_000);
    await attempt(async () => {
      fail(app, id);
      await durable(app.ctx.db);
    });
    await app.close().catch(() => {});
    const after = testApp({ clock, dir: app.dir });
    const sum = (sql: string) => after.ctx.db.$client.query<{ n: number | null }, []>(sql).get()?.n ?? 0;
    const charged = sum("SELECT -sum(amount_micros) AS n FROM ledger_entries WHERE kind = 'charge'");
    expect(sum(`SELECT -sum(amount_micros) AS n FROM ledger_entries WHERE api_key_id = '${child.id}'`)).toBe(charged);
    for (const key of [parent, child]) expect(budgets.chargedMicros(after.ctx.db, key.id, clock.now())).toBe(charged);
    expect([0, 10_000_000]).toContain(charged);
    await after.close();
    after.remove();
  });
  expect(crashes).toBeGreaterThan(2);
});
