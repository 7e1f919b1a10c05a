import type { Ctx } from "../../../context.ts";
import { callOf, TRACKERS } from "./call.ts";
import { TrackerError } from "./contract.ts";
import type { TrackerTest } from "./schema.ts";
import type { IntegrationRow } from "./table.ts";

/** A fault of the tracker is part of the answer, not an error of this API. */
export async function testTracker(ctx: Ctx, row: IntegrationRow): Promise<TrackerTest> {
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
