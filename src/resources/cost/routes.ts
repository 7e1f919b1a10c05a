import { Elysia } from "elysia";
import type { Ctx } from "../../context.ts";
import { area } from "../../http/auth.ts";
import { describe } from "../../http/openapi.ts";
import { asks } from "../../http/query.ts";
import { byGpu, byProvider, summary } from "./history.ts";
import * as shapes from "./schema.ts";
import * as cost from "./service.ts";

export const routes = (ctx: Ctx) => {
  const { authed } = area(ctx, "training");
  return new Elysia({ prefix: "/v1/cost", tags: ["Cost"] })
    .use(authed)
    .get("/summary", ({ principal, query }) => summary(ctx, principal.workspaceId, query.days), {
      ...asks(shapes.PeriodQuery),
      detail: describe("What jobs have cost", { 200: shapes.CostSummary }),
    })
    .get("/by_provider", ({ principal, query }) => byProvider(ctx, principal.workspaceId, query.days), {
      ...asks(shapes.PeriodQuery),
      detail: describe("What jobs have cost, by provider", { 200: shapes.CostByProvider }),
    })
    .get("/by_gpu", ({ principal, query }) => byGpu(ctx, principal.workspaceId, query.days), {
      ...asks(shapes.PeriodQuery),
      detail: describe("What jobs have cost, by GPU type", { 200: shapes.CostByGpu }),
    })
    .get("/estimate", ({ query }) => cost.estimateFor(ctx, query), {
      ...asks(shapes.EstimateQuery),
      detail: describe("What a job would cost", { 200: shapes.CostEstimate }),
    })
    .get("/monthly_projection", ({ query }) => cost.projectMonth(ctx, query), {
      ...asks(shapes.MonthQuery),
      detail: describe("What a month of jobs would cost", { 200: shapes.MonthlyProjection }),
    })
    .get("/compare", ({ query }) => cost.compare(ctx, query), {
      ...asks(shapes.CompareQuery),
      detail: describe("What the same job would cost with each provider and plan", { 200: shapes.CostComparison }),
    })
    .get("/rates", () => cost.rates(ctx), {
      detail: describe("The price of an hour of one GPU, by provider and type", { 200: shapes.CostRates }),
    });
};
