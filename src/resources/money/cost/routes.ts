import { Elysia } from "elysia";
import type { Ctx } from "../../../context.ts";
import { area } from "../../../http/auth.ts";
import { describe } from "../../../http/openapi.ts";
import { asks } from "../../../http/query.ts";
import { byUse } from "./by_use.ts";
import { byDay, byGpu, byProvider, summary } from "./history.ts";
import * as shapes from "./schema.ts";
import * as cost from "./service.ts";

export const routes = (ctx: Ctx) => {
  const { authed } = area(ctx, "training");
  return new Elysia({ prefix: "/v1/cost", tags: ["Cost"] })
    .use(authed)
    .get("/summary", ({ principal, query }) => summary(ctx, principal.workspaceId, query.days), {
      ...asks(shapes.PeriodQuery),
      detail: describe("Get the cost of past jobs and deployments", { 200: shapes.CostSummary }),
    })
    .get("/by_provider", ({ principal, query }) => byProvider(ctx, principal.workspaceId, query.days), {
      ...asks(shapes.PeriodQuery),
      detail: describe("Get the cost of past jobs and deployments by provider", { 200: shapes.CostByProvider }),
    })
    .get("/by_gpu", ({ principal, query }) => byGpu(ctx, principal.workspaceId, query.days), {
      ...asks(shapes.PeriodQuery),
      detail: describe("Get the cost of past jobs and deployments by GPU type", { 200: shapes.CostByGpu }),
    })
    .get("/by_day", ({ principal, query }) => byDay(ctx, principal.workspaceId, query.days), {
      ...asks(shapes.PeriodQuery),
      detail: describe("Get the cost of past jobs and deployments by day (UTC), oldest first", {
        200: shapes.CostByDay,
      }),
    })
    .get("/by_use", ({ principal, query }) => byUse(ctx, principal.workspaceId, query), {
      ...asks(shapes.UseQuery),
      detail: describe(
        "Get requests, tokens, time and cost by day and by key or model",
        { 200: shapes.CostByUse },
        { description: "Time and cost count for the key that pays, requests and tokens for the key that sent them." },
      ),
    })
    .get("/estimate", ({ principal, query }) => cost.estimateFor(ctx, principal.workspaceId, query), {
      ...asks(shapes.EstimateQuery),
      detail: describe("Estimate the cost of a job", { 200: shapes.CostEstimate }),
    })
    .get("/monthly_projection", ({ principal, query }) => cost.projectMonth(ctx, principal.workspaceId, query), {
      ...asks(shapes.MonthQuery),
      detail: describe("Estimate the cost of a month of jobs", { 200: shapes.MonthlyProjection }),
    })
    .get("/compare", ({ principal, query }) => cost.compare(ctx, principal.workspaceId, query), {
      ...asks(shapes.CompareQuery),
      detail: describe("Compare the cost of a job between providers and plans", { 200: shapes.CostComparison }),
    })
    .get("/rates", ({ principal }) => cost.rates(ctx, principal.workspaceId), {
      detail: describe("Get the price of an hour of one GPU by provider and type", { 200: shapes.CostRates }),
    });
};
