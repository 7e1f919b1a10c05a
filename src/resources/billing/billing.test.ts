import { expect, test } from "bun:test";
import { jobsApp } from "../../../test/jobs_kit.ts";
import { write } from "../../platform/db.ts";
import * as jobs from "../training_jobs/service.ts";
import * as billing from "./service.ts";

test("an hour at a rate costs the rate, and nothing where there is none", () => {
  expect(billing.costOf(36_000_000, 3_600_000)).toBe(36_000_000);
  expect(billing.costOf(1_000_000, 1)).toBe(0);
  expect(billing.costOf(null, 3_600_000)).toBe(0);
  expect(billing.costOf(1_000_000, -5)).toBe(0);
});

test("what jobs cost is taken from the balance for good", async () => {
  const own = await jobsApp({ flags: { "billing.local_rate_usd_per_hour": 36, "billing.initial_credit_usd": 50 } });
  const id = await own.job();
  expect(jobs.current(own.ctx, id)?.rateMicros).toBe(36_000_000);
  const usage = { workspaceId: own.workspaceA, jobId: id, from: 0, to: 3_600_000, ratePerHourMicros: 36_000_000 };
  expect(write(own.ctx.db, (tx) => billing.chargeJob(tx, usage))).toBe(36_000_000);
  expect(billing.balanceMicros(own.ctx, own.workspaceA)).toBe(14_000_000);
  expect(billing.balanceMicros(own.ctx, own.workspaceB)).toBe(50_000_000);
  write(own.ctx.db, (tx) => billing.chargeJob(tx, usage));
  const refused = await own.post();
  expect([refused.status, refused.body.error.code]).toEqual([402, "insufficient_credits"]);
  await own.close().then(own.remove);
});
