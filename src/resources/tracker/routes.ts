import { Elysia } from "elysia";
import type { Ctx } from "../../context.ts";
import { area } from "../../http/auth.ts";
import { keepOpen } from "../../http/connection.ts";
import { describe } from "../../http/openapi.ts";
import { Deleted } from "../../lib/schema.ts";
import { tryOut } from "./check.ts";
import { ID, PutTracker, TrackerIntegration, TrackerTest } from "./schema.ts";
import * as settings from "./service.ts";

export const routes = (ctx: Ctx) => {
  const { authed, takes } = area(ctx, "account");
  const own = (workspaceId: string) => settings.mustGet(ctx, workspaceId);
  return new Elysia({ prefix: "/v1/settings/integrations/tracker", tags: ["Settings"] })
    .use(authed)
    .put(
      "",
      ({ principal, body, set }) => {
        const { row, created } = settings.put(ctx, principal.workspaceId, body);
        set.status = created ? 201 : 200;
        return settings.shown(ctx, row);
      },
      {
        ...takes(PutTracker),
        detail: describe(
          "Set up the experiment tracker (201) or change it (200)",
          { 200: TrackerIntegration, 201: TrackerIntegration },
          { description: "Jobs that are created from now on are logged there: parameters, metrics, status." },
        ),
      },
    )
    .get("", ({ principal }) => settings.shown(ctx, own(principal.workspaceId)), {
      detail: describe("Get the experiment tracker and how it goes", { 200: TrackerIntegration }),
    })
    .delete(
      "",
      ({ principal }) => {
        settings.remove(ctx, principal.workspaceId);
        return { id: ID, object: "tracker_integration", deleted: true };
      },
      {
        detail: describe(
          "Remove the experiment tracker",
          { 200: Deleted("tracker_integration") },
          { description: "Future jobs are not logged. One that the tracker knows is logged to its end." },
        ),
      },
    )
    .post(
      "/test",
      ({ request, principal }) => {
        keepOpen(ctx, request);
        return tryOut(ctx, own(principal.workspaceId));
      },
      {
        detail: describe(
          "Try the experiment tracker out",
          { 200: TrackerTest },
          { description: "Asks it whether it would take runs; nothing is written there." },
        ),
      },
    );
};
