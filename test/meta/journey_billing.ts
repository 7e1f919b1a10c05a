import { write } from "../../src/platform/db/db.ts";
import * as workspaces from "../../src/resources/access/workspaces/service.ts";
import * as billing from "../../src/resources/money/billing/service.ts";
import type { TestApp } from "../harness.ts";
import type { Step } from "./journey.ts";

const customerOf = (app: TestApp) => workspaces.mustGet(app.ctx, app.workspaceA).paymentCustomerId;
const customerQuery = async (app: TestApp) => ({ "?": `?payment_customer_id=${customerOf(app)}` });
const body = (more: object) => async (app: TestApp) => ({ payment_customer_id: customerOf(app), ...more });

export const BILLING: Step[] = [
  { operation: "GET /v1/billing/balance", own: customerQuery, plain: true },
  { operation: "GET /v1/billing/transactions", own: customerQuery, plain: true },
  { operation: "POST /v1/billing/check_balance", make: body({ estimated_cost_usd: 1 }), plain: true },
  { operation: "GET /v1/billing/burn_rate", plain: true },
  { operation: "POST /v1/billing/grants", as: "admin", make: body({ amount_usd: 1 }), plain: true },
];

/** Uses up the credit of a workspace. */
export function spend(app: TestApp) {
  const { id: workspaceId } = workspaces.create(app.ctx, { name: "spender", metadata: {} });
  const usd = app.ctx.config.billing.initial_credit_usd;
  const use = (share: number, usedMs: number) => {
    const rate = { ratePerHourMicros: share * usd * 1e6, count: 1, remainder: 0 };
    const stretch = { usedMs, ms: 3_600_000, until: app.ctx.clock.now(), ...rate };
    const bill = billing.billFor({
      workspaceId,
      keyId: null,
      kind: "job",
      id: "job_spent",
      label: "A job",
      ...stretch,
    });
    write(app.ctx.db, (tx) => billing.charge(tx, bill, app.ctx.clock.now()));
  };
  use(0.9, 0);
  use(0.2, 3_600_000);
}
