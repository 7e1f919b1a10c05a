import { Elysia } from "elysia";
import type { Ctx, Principal } from "../../../context.ts";
import { area } from "../../../http/auth.ts";
import { creates } from "../../../http/idempotency.ts";
import { describe } from "../../../http/openapi.ts";
import { asks } from "../../../http/query.ts";
import { AppError } from "../../../lib/errors.ts";
import { usdOf } from "../../../lib/money.ts";
import * as workspaces from "../../access/workspaces/service.ts";
import * as shapes from "./schema.ts";
import * as billing from "./service.ts";

export const routes = (ctx: Ctx) => {
  const { authed, takes } = area(ctx, "training");
  const workspaceIdOf = (principal: Principal, customer: string, param: string) =>
    mustOwn(ctx, principal, customer, param);
  return new Elysia({ prefix: "/v1/billing", tags: ["Billing"] })
    .use(authed)
    .get(
      "/balance",
      ({ principal, query }) => {
        const workspaceId = workspaceIdOf(principal, query.payment_customer_id, "payment_customer_id");
        const { payment_customer_id } = query;
        const balance_usd = usdOf(billing.balanceMicros(ctx, workspaceId));
        return { object: "balance", payment_customer_id, balance_usd };
      },
      { ...asks(shapes.BalanceQuery), detail: describe("Get the credit that is left", { 200: shapes.Balance }) },
    )
    .get(
      "/transactions",
      ({ principal, query }) => {
        const workspaceId = workspaceIdOf(principal, query.payment_customer_id, "payment_customer_id");
        const { data: items, has_more } = billing.transactions(ctx, workspaceId, query);
        return { object: "list", items, has_more };
      },
      {
        ...asks(shapes.TransactionsQuery),
        detail: describe("List credit and charges, newest first", { 200: shapes.Transactions }),
      },
    )
    .post(
      "/check_balance",
      ({ principal, body }) => {
        const workspaceId = workspaceIdOf(principal, body.payment_customer_id, "/payment_customer_id");
        return billing.checkBalance(ctx, workspaceId, body.estimated_cost_usd);
      },
      {
        ...takes(shapes.CheckBalance),
        detail: describe("Check whether the credit covers a cost; 402 if it does not", { 200: shapes.BalanceCheck }),
      },
    )
    .get("/burn_rate", ({ principal }) => billing.burnRate(ctx, principal.workspaceId), {
      detail: describe("Get the cost of running work per hour, and how long the credit lasts", {
        200: shapes.BurnRate,
      }),
    });
};

/** Routes for the operator. */
export const grantRoutes = (ctx: Ctx) => {
  const { authed, takes } = area(ctx, "admin");
  return new Elysia({ prefix: "/v1/billing/grants", tags: ["Billing"] }).use(authed).post(
    "",
    ({ request, principal, body, set }) =>
      creates(ctx, { request, principal, body, set }, () => {
        const workspace = workspaces.findByCustomer(ctx, body.payment_customer_id);
        if (!workspace) throw notFound(body.payment_customer_id, "/payment_customer_id");
        const { amount_usd: usd, description } = body;
        return shapes.presentEntry(billing.grant(ctx, { workspaceId: workspace.id, usd, description }));
      }),
    {
      ...takes(shapes.GrantCredit),
      detail: describe("Give credit to a workspace", { 201: shapes.Transaction }),
    },
  );
};

/** A customer id of another workspace is answered like one that does not exist. */
function mustOwn(ctx: Ctx, { workspaceId }: Principal, customer: string, param: string): string {
  if (workspaces.mustGet(ctx, workspaceId).paymentCustomerId !== customer) throw notFound(customer, param);
  return workspaceId;
}

const notFound = (customer: string, param: string) =>
  new AppError(
    "resource_not_found",
    `No customer ${customer.slice(0, 80)}: GET /v1/account shows your payment_customer_id`,
    { param },
  );
