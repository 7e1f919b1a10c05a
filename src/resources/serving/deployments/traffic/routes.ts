import { Elysia } from "elysia";
import type { Ctx } from "../../../../context.ts";
import { area } from "../../../../http/auth.ts";
import { describe } from "../../../../http/openapi.ts";
import { asks, type named } from "../../../../http/query.ts";
import { mustGet } from "../service.ts";
import { liveView } from "./live_view.ts";
import { readLog } from "./log.ts";
import { DeploymentLive, DeploymentLog, DeploymentTraffic, LogQuery, TrafficQuery } from "./schema.ts";
import { trafficOf } from "./series.ts";

/** Figures and lines of one deployment. `names` lets a path name the deployment. */
export const observing = (ctx: Ctx, names: ReturnType<typeof named>) => {
  const { authed } = area(ctx, "inference");
  return new Elysia({ prefix: "/v1/deployments", tags: ["Deployments"] })
    .use(authed)
    .use(names)
    .get(
      "/:id/traffic",
      ({ principal, params, query }) => trafficOf(ctx, mustGet(ctx, principal.workspaceId, params.id), query.hours),
      {
        ...asks(TrafficQuery),
        detail: describe("Get a deployment's requests, tokens and times over time", { 200: DeploymentTraffic }),
      },
    )
    .get("/:id/live", ({ principal, params }) => liveView(ctx, mustGet(ctx, principal.workspaceId, params.id)), {
      detail: describe("Get a deployment's replicas, memory and adapters as they are now", { 200: DeploymentLive }),
    })
    .get(
      "/:id/logs",
      ({ principal, params, query }) => readLog(ctx, mustGet(ctx, principal.workspaceId, params.id), query),
      {
        ...asks(LogQuery),
        detail: describe(
          "Read the newest lines of a deployment's log",
          { 200: DeploymentLog },
          { description: "Starts, ends, replicas, adapters and failed requests. The newest 1,000 lines are kept." },
        ),
      },
    );
};
