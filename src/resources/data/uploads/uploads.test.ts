import { expect, test } from "bun:test";
import { and, eq } from "drizzle-orm";
import { testApp } from "../../../../test/harness.ts";
import { isLive } from "./service.ts";
import { uploads } from "./table.ts";

test("what is over is not read again to find what is under way", async () => {
  const app = testApp();
  for (const where of [and(eq(uploads.workspaceId, "w"), isLive), and(isLive, eq(uploads.status, "open"))]) {
    const { sql, params } = app.ctx.db.select().from(uploads).where(where).toSQL();
    const plan = app.ctx.db.$client.query(`EXPLAIN QUERY PLAN ${sql}`).all(...(params as string[]));
    expect(plan).toMatchObject([{ detail: expect.stringContaining("uploads_live") }]);
  }
  await app.close();
  app.remove();
});
