import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { join } from "node:path";
import { eq } from "drizzle-orm";
import { fakeClock, manyApps, tempDir, testApp } from "../../../../test/harness.ts";
import { type JobsApp, jobsApp } from "../../../../test/jobs_kit.ts";
import { events } from "../../../events/table.ts";
import { closeDb, openDb, write } from "../../../platform/db/db.ts";
import { migrate } from "../../../platform/db/migrate.ts";
import { MIGRATIONS } from "../../../platform/db/migrations/index.ts";
import * as jobMoves from "../../training/training_jobs/state/moves.ts";
import { currentJob } from "../../training/training_jobs/state/rows.ts";
import * as billing from "./service.ts";
import { creditAccounts, ledgerEntries } from "./table.ts";

const HOUR = 3_600_000;
const clock = fakeClock();
let app: JobsApp;
let customer: string;
beforeAll(async () => {
  app = await jobsApp({ clock, flags: { "billing.local_rate_usd_per_hour": 36, "billing.initial_credit_usd": 50 } });
  customer = (await app.call("GET", "/v1/account")).body.payment_customer_id;
});
afterAll(() => app.close().then(app.remove));

const balance = async () => (await app.call("GET", `/v1/billing/balance?payment_customer_id=${customer}`)).body;
const items = async (more = "") =>
  (await app.call("GET", `/v1/billing/transactions?payment_customer_id=${customer}${more}`)).body.items;
const grant = (usd: number) => billing.grant(app.ctx, { workspaceId: app.workspaceA, usd });
/** A job that has run for so long, and completed. */
const ranFor = async (ms: number) => {
  const id = await app.job();
  const started = jobMoves.provision(app.ctx, currentJob(app.ctx.db, id)!, undefined);
  jobMoves.markRunning(app.ctx, id, { device: "cpu", memoryBytes: 1 });
  clock.advance(ms);
  write(app.ctx.db, (tx) => void jobMoves.complete(app.ctx, tx, currentJob(tx, id)!));
  expect(started?.rateMicros).toBe(36_000_000);
  return id;
};

describe("the ledger", () => {
  test("a workspace begins with its credit, and a job that has run is taken from it for good", async () => {
    expect(await balance()).toEqual({ object: "balance", payment_customer_id: customer, balance_usd: 50 });
    const id = await ranFor(HOUR);
    expect((await app.get(id)).cost_usd).toBe(36);
    expect(await balance()).toEqual({ object: "balance", payment_customer_id: customer, balance_usd: 14 });
    expect(billing.balanceMicros(app.ctx, app.workspaceB)).toBe(50_000_000);
    expect(await items()).toEqual([
      {
        object: "transaction",
        id: expect.stringMatching(/^txn_/),
        amount_usd: -36,
        description: `Training job ${id}: 1 h at $36.0000 an hour`,
        created_at: expect.stringMatching(/Z$/),
      },
      expect.objectContaining({ amount_usd: 50, description: "Initial credit" }),
    ]);
  });

  test("an entry is neither changed nor deleted, and nothing is booked twice", () => {
    const { $client } = app.ctx.db;
    expect(() => $client.run("UPDATE ledger_entries SET amount_micros = 0")).toThrow("append-only");
    expect(() => $client.run("DELETE FROM ledger_entries")).toThrow("append-only");
    const bill = billing.billFor({
      workspaceId: app.workspaceA,
      keyId: null,
      until: 1000,
      kind: "job",
      id: "job_x",
      label: "x",
      usedMs: 0,
      ms: 1000,
      count: 1,
      remainder: 0,
      ratePerHourMicros: 1_000_000,
    } as const);
    const before = billing.balanceMicros(app.ctx, app.workspaceA);
    const twice = () => {
      write(app.ctx.db, (tx) => {
        billing.charge(tx, bill, 1);
        billing.charge(tx, bill, 2);
      });
    };
    expect(twice).toThrow();
    expect(billing.balanceMicros(app.ctx, app.workspaceA)).toBe(before);
  });

  test("what is free leaves no entry", () => {
    const count = () => app.ctx.db.select().from(ledgerEntries).all().length;
    const before = count();
    const free = {
      workspaceId: app.workspaceA,
      keyId: null,
      until: 5,
      kind: "job",
      id: "job_y",
      label: "y",
      usedMs: 0,
      ms: 5,
      count: 1,
    } as const;
    write(app.ctx.db, (tx) =>
      billing.charge(tx, billing.billFor({ ...free, ratePerHourMicros: null, remainder: 0 }), 1),
    );
    expect(count()).toBe(before);
  });

  test("a workspace that is older than the ledger gets its first credit at the start, once", () => {
    const of = eq(creditAccounts.workspaceId, app.workspaceB);
    app.ctx.db.$client.run("DROP TRIGGER ledger_entries_stay");
    app.ctx.db.delete(ledgerEntries).where(eq(ledgerEntries.workspaceId, app.workspaceB)).run();
    app.ctx.db.update(creditAccounts).set({ balanceMicros: -7, fullMicros: null }).where(of).run();
    billing.begin(app.ctx);
    billing.begin(app.ctx);
    expect(billing.balanceMicros(app.ctx, app.workspaceB)).toBe(49_999_993);
    const entries = app.ctx.db.select().from(ledgerEntries).where(eq(ledgerEntries.workspaceId, app.workspaceB)).all();
    expect(entries.map(({ kind, amountMicros }) => [kind, amountMicros])).toEqual([["initial", 50_000_000]]);
  });
});

test("what was spent before the ledger is its first entry, and the balance is what it was", async () => {
  const dir = tempDir();
  const db = openDb({ path: join(dir, "verk.db") });
  const before = MIGRATIONS.filter(({ version }) => version < 9);
  migrate(db, join(dir, "backups"), before);
  db.$client.run("INSERT INTO workspaces VALUES ('ws_old', 'old', 'active', 'cus_old', '{}', 1, 1)");
  db.$client.run("INSERT INTO billing_accounts VALUES ('ws_old', 1500000, 7)");
  closeDb(db);
  const upgraded = testApp({ dir });
  billing.begin(upgraded.ctx);
  expect(billing.balanceMicros(upgraded.ctx, "ws_old")).toBe(98_500_000);
  const { data } = billing.transactions(upgraded.ctx, "ws_old", { limit: 10 });
  expect(data.map(({ amount_usd }) => amount_usd)).toEqual([100, -1.5]);
  await upgraded.close().then(upgraded.remove);
});

describe("the routes", () => {
  test("transactions come newest first, a page at a time", async () => {
    for (let i = 0; i < 3; i++) grant(1);
    const all = await items();
    expect(await items("&limit=2")).toEqual(all.slice(0, 2));
    expect(await items(`&limit=2&after=${all[1].id}`)).toEqual(all.slice(2, 4));
    grant(-3);
    expect((await items())[0]).toMatchObject({ amount_usd: -3, description: "Credit taken back" });
  });

  test("another's customer id is not there, nor is an invented one", async () => {
    for (const path of ["balance", "transactions"])
      for (const id of [customer, "cus_none"]) {
        const key = id === customer ? app.keyB : app.keyA;
        const answer = await app.call("GET", `/v1/billing/${path}?payment_customer_id=${id}`, undefined, { key });
        expect([answer.status, answer.body.error.param]).toEqual([404, "payment_customer_id"]);
      }
    const body = { payment_customer_id: customer, estimated_cost_usd: 1 };
    expect((await app.call("POST", "/v1/billing/check_balance", body, { key: app.keyB })).status).toBe(404);
  });

  test("what is missing or makes no sense is named", async () => {
    const { status, body } = await app.call("GET", "/v1/billing/balance");
    expect([status, body.error.param]).toEqual([422, "payment_customer_id"]);
    const check = (cost: unknown) =>
      app.call("POST", "/v1/billing/check_balance", { payment_customer_id: customer, estimated_cost_usd: cost });
    for (const cost of [undefined, -1, "1", 1e12])
      expect([(await check(cost)).status, (await check(cost)).body.error.param]).toEqual([422, "/estimated_cost_usd"]);
  });

  test("a cost is covered by the balance, or 402 says that it is not", async () => {
    const check = (cost: number) =>
      app.call("POST", "/v1/billing/check_balance", { payment_customer_id: customer, estimated_cost_usd: cost });
    const { balance_usd } = await balance();
    expect((await check(balance_usd)).body).toEqual({
      object: "balance_check",
      sufficient: true,
      balance_usd,
      estimated_cost_usd: balance_usd,
    });
    const { status, body } = await check(balance_usd + 0.01);
    expect(status).toBe(402);
    expect(body.error).toMatchObject({ type: "billing_error", code: "insufficient_credits" });
    expect(body.error.message).toMatch(/^Insufficient credit balance: the balance is \$\d+\.\d\d, and/);
    expect((await check(balance_usd + 0.00001)).body.error.message).toMatch(/the balance is (\$\S+), and (?!\1)/);
  });

  test("P13 check_balance: a balance of 0 covers a cost of 0, and a debt does not", async () => {
    const check = () =>
      app.call("POST", "/v1/billing/check_balance", { payment_customer_id: customer, estimated_cost_usd: 0 });
    const { balance_usd } = await balance();
    grant(-balance_usd);
    expect((await check()).body).toMatchObject({ sufficient: true, balance_usd: 0, estimated_cost_usd: 0 });
    grant(-1);
    expect((await check()).status).toBe(402);
    grant(balance_usd + 1);
  });

  test("a balance stays one that is exact to the micro-dollar", () => {
    const { workspaceId } = app.keyOf("rich", []);
    for (let i = 0; i < 9; i++) billing.grant(app.ctx, { workspaceId, usd: 1e9 - 50 });
    expect(() => billing.grant(app.ctx, { workspaceId, usd: 1e9 })).toThrow(
      "amount_usd: the balance would be $9999999600.00",
    );
    billing.grant(app.ctx, { workspaceId, usd: 0.000001 });
    expect(billing.balanceMicros(app.ctx, workspaceId)).toBe(8_999_999_600_000_001);
  });

  test("credit is granted by operators alone, and once for each Idempotency-Key", async () => {
    const body = { payment_customer_id: customer, amount_usd: 2.5, description: "Thanks" };
    const post = (key: string, json: object = body) =>
      app.call("POST", "/v1/billing/grants", json, { key, headers: { "idempotency-key": "g1" } });
    const before = (await balance()).balance_usd;
    expect((await post(app.keyA)).status).toBe(403);
    const first = await post(app.adminKey);
    expect([first.status, first.body.amount_usd, first.body.description]).toEqual([201, 2.5, "Thanks"]);
    expect((await post(app.adminKey)).body).toEqual(first.body);
    expect((await balance()).balance_usd).toBeCloseTo(before + 2.5, 9);
    const stranger = { ...body, payment_customer_id: "cus_none" };
    expect((await app.call("POST", "/v1/billing/grants", stranger, { key: app.adminKey })).status).toBe(404);
    const none = { ...body, amount_usd: 0 };
    expect((await app.call("POST", "/v1/billing/grants", none, { key: app.adminKey })).status).toBe(422);
  });
});

test("a workspace hears of its credit going down, and of credit that comes", async () => {
  const { open, closeAll } = manyApps();
  const own = open({ flags: { "billing.initial_credit_usd": 10 } });
  let usedMs = 0;
  const spend = (usd: number) =>
    write(own.ctx.db, (tx) => {
      const stretch = { usedMs, ms: HOUR, until: HOUR, ratePerHourMicros: usd * 1e6, count: 1, remainder: 0 };
      const payer = { workspaceId: own.workspaceA, keyId: null };
      billing.charge(
        tx,
        billing.billFor({ ...payer, kind: "job", id: "job_1", label: "x", ...stretch }),
        own.ctx.clock.now(),
      );
      usedMs += HOUR;
    });
  for (const usd of [7, 2, 0.6, 1]) spend(usd);
  billing.grant(own.ctx, { workspaceId: own.workspaceA, usd: 20.6 });
  spend(19);
  billing.grant(own.ctx, { workspaceId: own.workspaceA, usd: -1 });
  const told = own.ctx.db.select().from(events).all();
  const credit = told.filter(({ type }) => type.startsWith("credit."));
  expect(credit.map(({ type, data }) => [type, data])).toEqual([
    ["credit.low", expect.objectContaining({ balance_usd: 1, threshold_percent: 20 })],
    ["credit.low", expect.objectContaining({ balance_usd: 0.4, threshold_percent: 5 })],
    ["credit.exhausted", expect.objectContaining({ balance_usd: -0.6 })],
    ["credit.granted", expect.objectContaining({ balance_usd: 20, amount_usd: 20.6 })],
    ["credit.low", expect.objectContaining({ balance_usd: 1, threshold_percent: 5 })],
    ["credit.granted", expect.objectContaining({ balance_usd: 0, amount_usd: -1 })],
    ["credit.exhausted", expect.objectContaining({ balance_usd: 0 })],
  ]);
  await closeAll();
});
