import { afterAll, beforeAll, expect, test } from "bun:test";
import { fakeClock } from "../../../../test/harness.ts";
import { type JobsApp, jobsApp } from "../../../../test/jobs_kit.ts";
import { pretendServing } from "../../../../test/pretend_replica.ts";
import { write } from "../../../platform/db/db.ts";
import * as deploying from "../../serving/deployments/fleet/moves.ts";
import * as training from "../../training/training_jobs/state/moves.ts";
import { currentJob } from "../../training/training_jobs/state/rows.ts";
import { tokensUsd } from "./by_use.ts";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const clock = fakeClock(Date.UTC(2026, 0, 5, 12));
let app: JobsApp;
beforeAll(async () => {
  app = await jobsApp({ clock, flags: { "billing.local_rate_usd_per_hour": 6 } });
}, 60_000);
afterAll(() => app.close().then(app.remove));

const get = async (path: string) => (await app.call("GET", `/v1/cost/${path}`)).body;

async function run(): Promise<string> {
  const id = await app.job();
  training.provision(app.ctx, currentJob(app.ctx.db, id)!, undefined);
  training.markRunning(app.ctx, id, { device: "cpu", memoryBytes: 1 });
  return id;
}

test("use of jobs and deployments is the same sum as the cost, by the day of its end and by the key that pays", async () => {
  const done = await run();
  clock.advance(HOUR);
  write(app.ctx.db, (tx) => void training.complete(app.ctx, tx, currentJob(tx, done)!));
  clock.advance(DAY);
  await run();
  clock.advance(HOUR / 2);
  const { body } = await app.call("POST", "/v1/deployments", { model: "random", name: "d" });
  pretendServing(app, body.id);
  clock.advance(HOUR / 6);
  deploying.park(app.ctx, body.id);

  const byKind = await get("by_use");
  expect(byKind).toMatchObject({ by: "kind", first_day: "2025-12-08", last_day: "2026-01-06", period_days: 30 });
  expect(byKind.data).toMatchObject([
    { group: "training", jobs: 2, days: [{ day: "2026-01-05", jobs: 1, device_hours: 1, cost_usd: 6 }, { jobs: 1 }] },
    { group: "serving", jobs: 0, cost_usd: 1, days: [{ day: "2026-01-06", cost_usd: 1 }] },
  ]);
  const summary = await get("summary");
  expect(byKind.total.cost_usd).toBeCloseTo(summary.total_cost_usd + summary.deployment_cost_usd, 6);
  expect(byKind.total.device_hours).toBeCloseTo(summary.total_gpu_hours + summary.deployment_gpu_hours, 5);
  expect((await get("by_use?kind=serving&by=model")).data).toMatchObject([{ group: "random", cost_usd: 1 }]);
  expect((await get("by_use?days=1")).total.jobs).toBe(1);
  const [mine, ...others] = (await get("by_use?by=key")).data;
  expect([mine.group, others]).toEqual([expect.stringMatching(/^key_/), []]);
  expect((await get(`by_use?key_id=${mine.group}`)).total).toEqual(byKind.total);
  expect((await app.call("GET", "/v1/cost/by_use?by=day")).status).toBe(422);
});

test("tokens from the cache have a price of their own", () => {
  const use = { requests: 1, jobs: 0, deviceMs: 0, costMicros: 0 };
  const tokens = { promptTokens: 3_000_000, cachedTokens: 2_000_000, completionTokens: 500_000 };
  expect(tokensUsd({ ...use, ...tokens }, { prompt_usd: 1, cached_usd: 0.1, completion_usd: 4 })).toBe(3.2);
});
