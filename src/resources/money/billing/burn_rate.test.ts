import { afterAll, beforeAll, expect, test } from "bun:test";
import { fakeClock } from "../../../../test/harness.ts";
import { type JobsApp, jobsApp } from "../../../../test/jobs_kit.ts";
import { pretendServing } from "../../../../test/pretend_replica.ts";
import * as deploymentMoves from "../../serving/deployments/fleet/moves.ts";
import * as jobMoves from "../../training/training_jobs/state/moves.ts";
import { currentJob } from "../../training/training_jobs/state/rows.ts";
import * as billing from "./service.ts";

const HOUR = 3_600_000;
const clock = fakeClock();
let app: JobsApp;
let customer: string;
beforeAll(async () => {
  app = await jobsApp({ clock, flags: { "billing.local_rate_usd_per_hour": 36, "billing.initial_credit_usd": 50 } });
  customer = (await app.call("GET", "/v1/account")).body.payment_customer_id;
}, 60_000);
afterAll(() => app.close().then(app.remove));
const grant = (usd: number) => billing.grant(app.ctx, { workspaceId: app.workspaceA, usd });

test("conformance 18: active_jobs has the running jobs and the deployments, and the burn rate is their sum", async () => {
  const idle = (await app.call("GET", "/v1/billing/burn_rate")).body;
  expect(idle).toMatchObject({ burn_rate_usd_per_hour: 0, hours_remaining: null, active_jobs: [] });
  grant(1000);
  const job = await app.job();
  jobMoves.provision(app.ctx, currentJob(app.ctx.db, job)!, undefined);
  const deployed = (await app.call("POST", "/v1/deployments", { model: "random", name: "d" })).body;
  expect(deployed.cost_per_hour_usd).toBe(36);
  pretendServing(app, deployed.id);
  clock.advance(HOUR / 60);
  const { body } = await app.call("GET", "/v1/billing/burn_rate");
  const meter = { gpu_type: "cpu", gpu_count: 1, provider: "local", burn_rate_usd_per_hour: 36 };
  const used = { elapsed_seconds: 60, accrued_cost_usd: 0.6, uncharged_cost_usd: 0.6 };
  expect(body).toEqual({
    object: "burn_rate",
    balance_usd: idle.balance_usd + 1000,
    burn_rate_usd_per_hour: 72,
    hours_remaining: expect.closeTo((idle.balance_usd + 1000 - 1.2) / 72, 9),
    active_jobs: [
      { object: "active_job", job_id: job, kind: "job", ...meter, ...used },
      { object: "active_job", job_id: deployed.id, kind: "deployment", ...meter, ...used },
    ],
  });
  deploymentMoves.move(app.ctx, deployed.id, "stop");
  jobMoves.fail(app.ctx, job, { code: "timeout", message: "x", param: null });
  expect((await app.call("GET", "/v1/billing/burn_rate")).body).toEqual({
    object: "burn_rate",
    balance_usd: expect.closeTo(idle.balance_usd + 998.8, 9),
    burn_rate_usd_per_hour: 0,
    hours_remaining: null,
    active_jobs: [],
  });
});

test("P13 burn_rate: elapsed_seconds and accrued_cost_usd are those of the job since its start, over interruptions", async () => {
  const job = await app.job();
  const run = () => jobMoves.provision(app.ctx, currentJob(app.ctx.db, job)!, undefined);
  run();
  clock.advance(10 * 60_000);
  jobMoves.pauseForCredit(app.ctx, job, "out of credit");
  jobMoves.suspend(app.ctx, job); // its worker has ended, and the run is charged
  clock.advance(HOUR);
  jobMoves.resumeFromCredit(app.ctx, job);
  run();
  clock.advance(5 * 60_000);
  const { body: deployment } = await app.call("POST", "/v1/deployments", { model: "random", name: "e" });
  pretendServing(app, deployment.id);
  clock.advance(60_000);
  deploymentMoves.keepAccount(app.ctx, deploymentMoves.current(app.ctx.db, deployment.id)!, 1); // charges the minute
  clock.advance(30_000);
  const { body } = await app.call("GET", "/v1/billing/burn_rate");
  const [active, serving] = body.active_jobs;
  expect(active).toMatchObject({ job_id: job, elapsed_seconds: 16.5 * 60, accrued_cost_usd: 9.9 });
  expect(active.uncharged_cost_usd).toBe(3.9);
  expect(serving).toMatchObject({
    kind: "deployment",
    elapsed_seconds: 90,
    accrued_cost_usd: 0.9,
    uncharged_cost_usd: 0.3,
  });
  const sum = body.active_jobs.reduce(
    (total: number, each: { burn_rate_usd_per_hour: number }) => total + each.burn_rate_usd_per_hour,
    0,
  );
  expect(body.burn_rate_usd_per_hour).toBe(sum);
  deploymentMoves.move(app.ctx, deployment.id, "stop");
  jobMoves.fail(app.ctx, job, { code: "timeout", message: "x", param: null });
});

test("P1 object: every answer of billing and cost, and every item, names its type", async () => {
  const job = await app.job();
  jobMoves.provision(app.ctx, currentJob(app.ctx.db, job)!, undefined);
  clock.advance(1_000);
  const get = async (path: string) => (await app.call("GET", `/v1/${path}`)).body;
  const own = `payment_customer_id=${customer}`;
  expect((await get(`billing/balance?${own}`)).object).toBe("balance");
  const list = await get(`billing/transactions?limit=1&${own}`);
  expect(list).toMatchObject({ object: "list", items: [{ object: "transaction" }], has_more: true });
  const check = { payment_customer_id: customer, estimated_cost_usd: 0 };
  expect((await app.call("POST", "/v1/billing/check_balance", check)).body.object).toBe("balance_check");
  const granted = { payment_customer_id: customer, amount_usd: 1 };
  const { body } = await app.call("POST", "/v1/billing/grants", granted, { key: app.adminKey });
  expect(body.object).toBe("transaction");
  expect(await get("billing/burn_rate")).toMatchObject({
    object: "burn_rate",
    active_jobs: [{ object: "active_job" }],
  });
  expect((await get("cost/summary")).object).toBe("cost_summary");
  expect((await get("cost/by_provider"))[0].object).toBe("cost_by_provider");
  expect((await get("cost/by_gpu"))[0].object).toBe("cost_by_gpu");
  expect((await get("cost/estimate")).object).toBe("cost_estimate");
  expect((await get("cost/monthly_projection")).object).toBe("cost_projection");
  jobMoves.fail(app.ctx, job, { code: "timeout", message: "x", param: null });
});
