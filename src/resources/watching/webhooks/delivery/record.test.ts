import { afterEach, beforeEach, expect, test } from "bun:test";
import { fakeClock, type TestApp, testApp } from "../../../../../test/harness.ts";
import { addEndpoint, emitCompleted } from "../../../../../test/webhooks_kit.ts";
import { write } from "../../../../platform/db/db.ts";
import { failpoints } from "../../../../platform/failpoint.ts";
import { webhookAttempts, webhookDeliveries, webhookEndpoints } from "../table.ts";
import type { AttemptResult } from "./attempt.ts";
import { fanOut } from "./fan_out.ts";
import { record } from "./record.ts";

const clock = fakeClock();
let app: TestApp;
beforeEach(() => {
  app = testApp({ clock });
});
afterEach(async () => {
  delete failpoints.hit;
  await app.close().then(app.remove);
});

const resultOf = (status: number): AttemptResult => ({
  attemptedAt: clock.now(),
  endedAt: clock.now(),
  outcome: { answered: true, status },
  responseCode: status,
  responseBody: null,
  errorCode: null,
  errorMessage: null,
});
const rows = () => app.ctx.db.select().from(webhookDeliveries).all();
const queue = async (count: number) => {
  addEndpoint(app.ctx, { workspaceId: app.workspaceA });
  for (let i = 0; i < count; i++) emitCompleted(app.ctx, app.workspaceA);
  await fanOut(app.ctx);
  return rows().map(({ id }) => id);
};
const recordAll = (ids: readonly string[], status = 204) =>
  Promise.allSettled(
    ids.map((id) => record(app.ctx, { deliveryId: id, trigger: "scheduled", result: resultOf(status) })),
  );

test("results that come together share a commit, and each counts", async () => {
  const ids = await queue(5);
  let commits = 0;
  failpoints.hit = (name) => {
    if (name === "db.before_commit") commits++;
  };
  const recorded = await recordAll(ids, 500);
  expect([commits, recorded.map(({ status }) => status)]).toEqual([1, Array(5).fill("fulfilled")]);
  expect(rows().every((row) => row.status === "pending" && row.attemptCount === 1)).toBe(true);
  expect(app.ctx.db.select().from(webhookEndpoints).all()).toMatchObject([{ consecutiveFailures: 5 }]);
});

test("a result that cannot be written takes no other with it", async () => {
  const ids = await queue(3);
  const taken = { deliveryId: ids[1]!, number: 1, attemptedAt: 0, trigger: "manual" as const, durationMs: 0 };
  write(app.ctx.db, (tx) => void tx.insert(webhookAttempts).values(taken).run());
  const recorded = await recordAll(ids);
  expect(recorded.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
  expect(rows().map(({ status }) => status)).toEqual(["succeeded", "pending", "succeeded"]);
  expect(app.ctx.db.select().from(webhookAttempts).all()).toHaveLength(3);
});

test("every caller learns that the commit was lost, and nothing of it stays", async () => {
  const ids = await queue(3);
  failpoints.hit = (name) => {
    if (name === "db.before_commit") throw new Error("lost");
  };
  expect((await recordAll(ids)).map(({ status }) => status)).toEqual(["rejected", "rejected", "rejected"]);
  expect(rows().every((row) => row.status === "pending" && row.attemptCount === 0)).toBe(true);
});
