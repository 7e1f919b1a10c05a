import { afterAll, beforeAll, expect, test } from "bun:test";
import { fakeClock } from "../../../../test/harness.ts";
import { type JobsApp, jobsApp } from "../../../../test/jobs_kit.ts";
import { pretendServing } from "../../../../test/pretend_replica.ts";
import { write } from "../../../platform/db/db.ts";
import * as deploying from "../../serving/deployments/fleet/moves.ts";
import { enforceCredit } from "../../training/training_jobs/state/credit.ts";
import * as training from "../../training/training_jobs/state/moves.ts";
import { currentJob } from "../../training/training_jobs/state/rows.ts";
import * as billing from "./service.ts";
import { ledgerEntries } from "./table.ts";

const MINUTE = 60_000;
const clock = fakeClock();
let app: JobsApp;
beforeAll(async () => {
  app = await jobsApp({ clock });
  billing.grant(app.ctx, { workspaceId: app.workspaceA, usd: -200 }); // a debt of 100
}, 60_000);
afterAll(() => app.close().then(app.remove));

const entries = () => app.ctx.db.select().from(ledgerEntries).all().length;
const balance = () => billing.balanceMicros(app.ctx, app.workspaceA);

test("F3 free local use: without credit a job is created, runs and ends, and nothing is charged", async () => {
  const before = entries();
  const id = await app.job();
  training.provision(app.ctx, currentJob(app.ctx.db, id)!, undefined);
  training.markRunning(app.ctx, id, { device: "cpu", memoryBytes: 1 });
  clock.advance(60 * MINUTE);
  enforceCredit(app.ctx);
  expect(currentJob(app.ctx.db, id)).toMatchObject({ status: "running", pauseReason: null });
  training.pauseForCredit(app.ctx, id, "out of credit"); // as if it had been paid work
  training.suspend(app.ctx, id);
  expect((await app.call("POST", `/v1/training_jobs/${id}/resume`)).status).toBe(200);
  training.provision(app.ctx, currentJob(app.ctx.db, id)!, undefined);
  write(app.ctx.db, (tx) => void training.complete(app.ctx, tx, currentJob(tx, id)!));
  expect((await app.get(id)).cost_usd).toBe(0);
  expect([entries(), balance()]).toEqual([before, -100_000_000]);
});

test("F3 D15 free local use: a deployment serves for hours without credit, and the ledger gets no line for it", async () => {
  const before = entries();
  const made = await app.call("POST", "/v1/deployments", { model: "random", name: "d" });
  expect([made.status, made.body.cost_per_hour_usd]).toEqual([201, 0]);
  const { id } = made.body;
  pretendServing(app, id);
  for (let minute = 0; minute < 120; minute++) {
    clock.advance(MINUTE);
    deploying.keepAccount(app.ctx, deploying.current(app.ctx.db, id)!, 1);
  }
  expect(deploying.current(app.ctx.db, id)).toMatchObject({ uptimeMs: 120 * MINUTE, totalCostMicros: 0 });
  expect((await app.call("GET", "/v1/billing/burn_rate")).body).toMatchObject({
    burn_rate_usd_per_hour: 0,
    hours_remaining: null,
  });
  await app.call("POST", `/v1/deployments/${id}/stop`);
  expect((await app.call("POST", `/v1/deployments/${id}/start`)).status).toBe(200);
  expect([entries(), balance()]).toEqual([before, -100_000_000]);
});

test("F3 free local use: a key whose monthly budget is spent may still start free work", async () => {
  const key = (await app.call("POST", "/v1/api_keys", { name: "k", monthly_budget_usd: 0.000001 })).body;
  write(app.ctx.db, (tx) =>
    billing.charge(
      tx,
      billing.billFor({
        workspaceId: app.workspaceA,
        keyId: key.id,
        kind: "job",
        id: "job_x",
        label: "x",
        usedMs: 0,
        ms: 1000,
        until: clock.now(),
        ratePerHourMicros: 3_600_000_000,
        count: 1,
        remainder: 0,
      }),
      clock.now(),
    ),
  );
  expect((await app.post({}, { key: key.key })).status).toBe(201);
});
