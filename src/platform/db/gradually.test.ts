import { afterAll, beforeAll, expect, test } from "bun:test";
import { sql } from "drizzle-orm";
import { type TestApp, testApp } from "../../../test/harness.ts";
import { pruneIdempotencyKeys } from "../../http/idempotency.ts";
import { durable } from "./db.ts";

let app: TestApp;
beforeAll(async () => {
  app = testApp();
  await durable(app.ctx.db);
});
afterAll(() => app.close().then(app.remove));

test("a large removal deletes exactly the rows that are due, and lets other work run in between", async () => {
  app.ctx.db.$client.run(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3500)
    INSERT INTO idempotency_keys SELECT 'ws', i, 'f', 201, 'x', i FROM n`);
  let turns = 0;
  const timer = setInterval(() => turns++, 0);
  expect(await pruneIdempotencyKeys(app.ctx.db, 3001)).toBe(3000);
  clearInterval(timer);
  expect(turns).toBeGreaterThan(0);
  const left = app.ctx.db.get<[number]>(sql`SELECT count(*) FROM idempotency_keys`);
  expect(Object.values(left)).toEqual([500]);
});
