import { Elysia } from "elysia";
import type { Ctx } from "../../../context.ts";
import { area } from "../../../http/auth.ts";
import { keepOpen } from "../../../http/connection.ts";
import { describe } from "../../../http/openapi.ts";
import { Deleted } from "../../../lib/schema.ts";
import { callOf, TRACKERS } from "./call.ts";
import { TrackerError } from "./contract.ts";
import { ID, PutTracker, TrackerIntegration, TrackerTest } from "./schema.ts";
import * as tracker from "./service.ts";
import type { IntegrationRow } from "./table.ts";

export const routes = (ctx: Ctx) => {
  const { authed, takes } = area(ctx, "account");
  const integrationOf = (workspaceId: string) => tracker.mustGet(ctx, workspaceId);
  return new Elysia({ prefix: "/v1/settings/integrations/tracker", tags: ["Settings"] })
    .use(authed)
    .put(
      "",
      ({ principal, body, set }) => {
        const { row, created } = tracker.put(ctx, principal.workspaceId, body);
        set.status = created ? 201 : 200;
        return tracker.show(ctx, row);
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
    .get("", ({ principal }) => tracker.show(ctx, integrationOf(principal.workspaceId)), {
      detail: describe("Get the experiment tracker and the state of its runs", { 200: TrackerIntegration }),
    })
    .delete(
      "",
      ({ principal }) => {
        tracker.remove(ctx, principal.workspaceId);
        return { id: ID, object: "tracker_integration", deleted: true };
      },
      {
        detail: describe(
          "Remove the experiment tracker",
          { 200: Deleted("tracker_integration") },
          { description: "Future jobs are not logged. Jobs that already have a run are logged to their end." },
        ),
      },
    )
    .post(
      "/test",
      ({ request, principal }) => {
        keepOpen(ctx, request);
        return testTracker(ctx, integrationOf(principal.workspaceId));
      },
      {
        detail: describe(
          "Test the experiment tracker",
          { 200: TrackerTest },
          { description: "Asks the tracker whether it would accept runs. Nothing is written there." },
        ),
      },
    );
};

/** A fault of the tracker is part of the answer, not an error of this API. */
async function testTracker(ctx: Ctx, row: IntegrationRow): Promise<TrackerTest> {
  const begun = performance.now();
  const answer = (error: TrackerTest["error"]): TrackerTest => ({
    object: "tracker_integration.test",
    ok: error === null,
    latency_ms: Math.round(performance.now() - begun),
    error,
  });
  try {
    await TRACKERS[row.type].check(callOf(ctx, row), row.project);
    return answer(null);
  } catch (error) {
    if (!(error instanceof TrackerError)) throw error;
    return answer({ code: error.kind, message: error.message });
  }
}
