import { afterEach, expect, test } from "bun:test";
import { asc, eq } from "drizzle-orm";
import { atEveryFailpoint, fakeClock, manyApps, type TestApp } from "../../../../test/harness.ts";
import { deploymentRow } from "../../../../test/money_deeds.ts";
import { newId } from "../../../lib/ids.ts";
import { DAY_MS, HOUR_MS } from "../../../lib/units.ts";
import { durable, write } from "../../../platform/db/db.ts";
import { mergeCharges } from "./merge.ts";
import * as billing from "./service.ts";
import { type EntryRow, ledgerEntries } from "./table.ts";

const { open, closeAll } = manyApps();
afterEach(closeAll);

const RATE = 7_000_003;
const entriesOf = (app: TestApp): EntryRow[] =>
  app.ctx.db
    .select()
    .from(ledgerEntries)
    .where(eq(ledgerEntries.workspaceId, app.workspaceA))
    .orderBy(asc(ledgerEntries.createdAt), asc(ledgerEntries.id))
    .all();

/** Hourly charges of two deployments for some days, one of them by two keys and at two rates. */
function charged(app: TestApp, clock: ReturnType<typeof fakeClock>, days: number) {
  const [a, b] = [newId("dep"), newId("dep")];
  const spend = (id: string, hour: number, keyId: string | null, rate: number, count = 1) =>
    write(app.ctx.db, (tx) =>
      billing.charge(
        tx,
        billing.billFor({
          workspaceId: app.workspaceA,
          keyId,
          kind: "deployment",
          id,
          label: "Deployment a: b",
          usedMs: hour * HOUR_MS,
          ms: HOUR_MS,
          until: clock.now(),
          ratePerHourMicros: rate,
          count,
          remainder: 0,
        }),
        clock.now(),
      ),
    );
  for (let hour = 0; hour < 24 * days; hour++) {
    spend(a, hour, hour % 2 === 0 ? null : "key_1", RATE + (hour % 24 < 8 ? 1 : 0), 1 + (hour % 3));
    spend(b, hour, "key_2", RATE);
    clock.advance(HOUR_MS);
  }
  billing.grant(app.ctx, { workspaceId: app.workspaceA, usd: 5 });
}

/** Everything that can be asked of the ledger: sums by deployment, key, rate and day. */
function sumsOf(entries: readonly EntryRow[]) {
  const sums: Record<string, [micros: number, ms: number, entries: number]> = {};
  for (const { kind, subjectId, apiKeyId, rateMicros, createdAt, amountMicros, usageMs, mergedEntries } of entries) {
    const key = [kind, subjectId, apiKeyId, rateMicros, Math.floor(createdAt / DAY_MS)].join();
    const [micros, ms, count] = sums[key] ?? [0, 0, 0];
    sums[key] = [micros + amountMicros, ms + (usageMs ?? 0), count + (mergedEntries ?? 1)];
  }
  return sums;
}

test("D15 ledger: old charges become one entry a day, and every sum stays the same", async () => {
  const clock = fakeClock();
  const app = open({ clock, flags: { "billing.merge_after_days": 2 } });
  charged(app, clock, 5);
  const before = entriesOf(app);
  const balance = billing.balanceMicros(app.ctx, app.workspaceA);
  expect(await mergeCharges(app.ctx)).toBe(3 * 48 - 3 * 5);
  const after = entriesOf(app);
  expect(sumsOf(after)).toEqual(sumsOf(before));
  expect(billing.balanceMicros(app.ctx, app.workspaceA)).toBe(balance);
  // Days that are young stay as they were booked, and so do grants.
  const limit = clock.now() - 2 * DAY_MS;
  const young = ({ createdAt, kind }: EntryRow) => createdAt >= limit || kind !== "charge";
  expect(after.filter(young)).toEqual(before.filter(young));
  // An entry that is kept keeps its id, its time and the window that it pays.
  const known = new Map(before.map((entry) => [entry.id, entry]));
  for (const { id, createdAt, windowKey } of after) expect(known.get(id)).toMatchObject({ createdAt, windowKey });
  expect(after.find(({ mergedEntries }) => mergedEntries === 24)?.description).toBe(
    "Deployment a: b: 1 d at $7.0000 an hour (24 charges of 2026-01-01)",
  );
  expect(await mergeCharges(app.ctx)).toBe(0);
  expect(entriesOf(app)).toEqual(after);
});

test("D15 ledger: a list that was begun before the merge continues after it", async () => {
  const clock = fakeClock();
  const app = open({ clock, flags: { "billing.merge_after_days": 1 } });
  charged(app, clock, 3);
  const customer = (await app.call("GET", "/v1/account")).body.payment_customer_id;
  const page = async (after?: string) =>
    (
      await app.call(
        "GET",
        `/v1/billing/transactions?payment_customer_id=${customer}&limit=100${after ? `&after=${after}` : ""}`,
      )
    ).body;
  const first = await page(); // ends in the middle of a day that will be merged
  await mergeCharges(app.ctx);
  const second = await page(first.items.at(-1).id);
  expect(second.has_more).toBe(false);
  const ids = [...first.items, ...second.items].map(({ id }: { id: string }) => id);
  expect(new Set(ids).size).toBe(ids.length);
  const older = entriesOf(app).filter(({ id }) => !first.items.some((item: { id: string }) => item.id === id));
  expect(second.items.map(({ id }: { id: string }) => id)).toEqual(older.reverse().map(({ id }) => id));
});

test("D15 ledger: only a merge that keeps the sum may change or delete an entry", async () => {
  const clock = fakeClock();
  const app = open({ clock, flags: { "billing.merge_after_days": 0 } });
  charged(app, clock, 2);
  clock.advance(90 * DAY_MS);
  expect(await mergeCharges(app.ctx)).toBe(0); // 0: never
  const { $client } = app.ctx.db;
  const begin = "INSERT INTO ledger_merge VALUES (1, 0, 0)";
  const charge = "(SELECT id FROM ledger_entries WHERE kind = 'charge' LIMIT 1)";
  for (const wrong of [
    ["DELETE FROM ledger_entries"],
    ["UPDATE ledger_entries SET amount_micros = 0"],
    ["UPDATE ledger_entries SET description = ''"],
    [begin, "DELETE FROM ledger_entries WHERE kind = 'grant'"],
    [begin, `UPDATE ledger_entries SET amount_micros = amount_micros + 1 WHERE id = ${charge}`],
    [begin, `UPDATE ledger_entries SET api_key_id = 'x' WHERE id = ${charge}`],
    [begin, `DELETE FROM ledger_entries WHERE id = ${charge}`, "DELETE FROM ledger_merge"],
  ])
    expect(() =>
      write(app.ctx.db, () => {
        for (const statement of wrong) $client.run(statement);
      }),
    ).toThrow(/append-only|lost an amount/);
});

test("D15 ledger: a window that was merged last cannot be charged again", async () => {
  const clock = fakeClock();
  const app = open({ clock, flags: { "billing.merge_after_days": 1 } });
  charged(app, clock, 2);
  clock.advance(9 * DAY_MS);
  await mergeCharges(app.ctx);
  const last = entriesOf(app).findLast(({ mergedEntries }) => mergedEntries !== null)!;
  const [id = "", usedMs] = last.windowKey.split("/");
  const again = () =>
    write(app.ctx.db, (tx) =>
      billing.charge(
        tx,
        billing.billFor({
          workspaceId: app.workspaceA,
          keyId: null,
          kind: "deployment",
          id,
          label: "x",
          usedMs: Number(usedMs),
          ms: 1,
          until: 0,
          ratePerHourMicros: RATE,
          count: 1,
          remainder: 0,
        }),
        clock.now(),
      ),
    );
  expect(again).toThrow();
});

test("D15 ledger: wherever the server is killed, each day is merged or as it was", async () => {
  const clock = fakeClock();
  let merged = 0;
  const crashes = await atEveryFailpoint(async (attempt) => {
    const app = open({ clock, flags: { "billing.merge_after_days": 1 } });
    charged(app, clock, 2);
    clock.advance(3 * DAY_MS);
    await durable(app.ctx.db);
    const before = sumsOf(entriesOf(app));
    await attempt(async () => {
      await mergeCharges(app.ctx);
      await durable(app.ctx.db);
    });
    await app.close();
    const after = open({ clock, dir: app.dir });
    expect(sumsOf(entriesOf(after))).toEqual(before);
    expect(after.ctx.db.$client.query("SELECT * FROM ledger_merge").all()).toEqual([]);
    await mergeCharges(after.ctx);
    expect(entriesOf(after).filter(({ kind }) => kind === "charge")).toHaveLength(2 * 5);
    merged++;
  });
  expect([crashes > 0, merged > 1]).toEqual([true, true]);
});

test("D15 ledger: a deployment that is charged while its old days are merged costs what it used", async () => {
  const clock = fakeClock();
  const app = open({ clock, flags: { "billing.merge_after_days": 1 } });
  charged(app, clock, 3);
  const row = deploymentRow(clock.now(), app.workspaceA, RATE);
  const merging = mergeCharges(app.ctx);
  write(app.ctx.db, (tx) =>
    billing.charge(
      tx,
      billing.billFor({
        workspaceId: app.workspaceA,
        keyId: null,
        kind: "deployment",
        id: row.id,
        label: "x",
        usedMs: 0,
        ms: HOUR_MS,
        until: 0,
        ratePerHourMicros: RATE,
        count: 1,
        remainder: 0,
      }),
      clock.now(),
    ),
  );
  await merging;
  const total = entriesOf(app).reduce((sum, { amountMicros }) => sum + amountMicros, 0);
  expect(billing.balanceMicros(app.ctx, app.workspaceA)).toBe(total);
});
