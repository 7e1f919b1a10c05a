import { afterAll, beforeAll, expect, test } from "bun:test";
import { and, type Column, eq, getTableColumns, getTableName, inArray } from "drizzle-orm";
import type { SQLiteTable } from "drizzle-orm/sqlite-core";
import { durable, write } from "../../src/platform/db/db.ts";
import { changeRow } from "../../src/platform/db/row.ts";
import { type TestApp, testApp } from "../harness.ts";
import { type AnyMachine, machines } from "./machines.ts";

let app: TestApp;
beforeAll(async () => {
  app = testApp();
  await durable(app.ctx.db); // nothing of it means anything inside a transaction
  app.ctx.db.$client.run("PRAGMA foreign_keys = OFF");
});
afterAll(() => app.close().then(app.remove));

type Row = Record<string, unknown>;

const SAMPLES: Record<string, readonly unknown[]> = {
  string: ["a", "", 'quotes " and ’ and 0x00 \u0000 end'],
  number: [1, 0, -1, 2 ** 53 - 1],
  boolean: [true, false],
  json: [{ a: [1, null, "€"] }, [], "text", 0, false],
  buffer: [Buffer.from([0, 255]), Buffer.alloc(0)],
};

/** The i-th value of a column, as the code would write it; null in its turn where that is allowed. */
function sample({ dataType, notNull, enumValues }: Column, i: number): unknown {
  const values = enumValues?.length ? enumValues : (SAMPLES[dataType] ?? []);
  const all = notNull ? values : [...values, null];
  return all[i % all.length];
}
const sampleRow = (table: SQLiteTable, i: number): Row =>
  Object.fromEntries(Object.entries(getTableColumns(table)).map(([key, column]) => [key, sample(column, i)]));

/** The same step from the same row, by the statement and by the query builder: what it answers, what is there then. */
type Table = AnyMachine["table"];

function step(table: Table, before: Row, { from, set }: { from: readonly string[]; set: Row }, how: "row" | "builder") {
  const id = before["id"] as string;
  return write(app.ctx.db, (tx) => {
    tx.delete(table).run();
    tx.$client.run("DELETE FROM usage_days");
    tx.$client.run("DELETE FROM usage_hours"); // sums that triggers keep, which no real value overflows
    tx.insert(table)
      .values(before as never)
      .run();
    const there = and(eq(table.id, id), inArray(table.status, [...from]));
    const build = () =>
      tx
        .update(table)
        .set(set as never)
        .where(there)
        .returning()
        .get();
    const answer = how === "row" ? changeRow(tx, table, { id, from, set }) : build();
    const raw = tx.$client.query(`SELECT * FROM "${getTableName(table)}"`).get();
    return { answer, raw, stored: tx.select().from(table).get() };
  });
}

test("a step of any machine changes its row as the query builder would, for all values", async () => {
  const found = await machines();
  expect(found.length).toBeGreaterThan(9);
  for (const [, { table, steps }] of found)
    for (const [from, to] of Object.values(steps))
      for (let i = 0; i < 12; i++) {
        const { id, updatedAt, ...values } = sampleRow(table, i);
        const set = { ...values, updatedAt: i % 3 === 0 ? undefined : updatedAt, status: to };
        const before = { ...sampleRow(table, i + 1), id: `x${i}`, status: from[i % from.length] };
        const ours = step(table, before, { from, set }, "row");
        expect(ours).toEqual(step(table, before, { from, set }, "builder"));
        expect(ours.answer).toEqual(ours.stored);
        expect(ours.answer).toMatchObject({ id: `x${i}`, status: to });
      }
});
