/** The loop that tells trackers. A tick starts what may start and does not wait for it. */
import { and, asc, eq, lte, min } from "drizzle-orm";
import type { Ctx } from "../../context.ts";
import { type Lane, type Live, liveOf } from "./live.ts";
import { pauseAfter } from "./plan.ts";
import { trackerRuns } from "./table.ts";
import { tell } from "./report.ts";

const MOST_LANES = 16;
const LANE_RUNS = 100;
const LANE_MS = 30_000;

type Destination = { workspaceId: string; baseUrl: string };

export function track(ctx: Ctx): void {
  const live = liveOf(ctx.db);
  const now = ctx.clock.now();
  for (const to of destinations(ctx, now)) {
    if (live.flights.size >= MOST_LANES || live.closing.signal.aborted) return;
    const lane = laneOf(live, to);
    if (lane.isAtWork || lane.restUntil > now) continue;
    lane.isAtWork = true;
    const flight = drive(ctx, live, lane, to)
      .catch((error) => ctx.log.error("trackers could not be told", { error }))
      .finally(() => {
        lane.isAtWork = false;
        live.flights.delete(flight);
      });
    live.flights.add(flight);
  }
}

/** Those with something due, who waited longest first. */
function destinations(ctx: Ctx, now: number): Destination[] {
  const { workspaceId, baseUrl, nextAt } = trackerRuns;
  return ctx.db
    .select({ workspaceId, baseUrl })
    .from(trackerRuns)
    .where(lte(nextAt, now))
    .groupBy(workspaceId, baseUrl)
    .orderBy(asc(min(nextAt)))
    .all();
}

function laneOf({ lanes }: Live, { workspaceId, baseUrl }: Destination): Lane {
  const key = `${workspaceId} ${baseUrl}`;
  const lane = lanes.get(key) ?? { isAtWork: false, failures: 0, restUntil: 0 };
  lanes.set(key, lane);
  return lane;
}

async function drive(ctx: Ctx, live: Live, lane: Lane, { workspaceId, baseUrl }: Destination): Promise<void> {
  const begun = ctx.clock.now();
  const { jobId, nextAt } = trackerRuns;
  const due = ctx.db
    .select({ jobId })
    .from(trackerRuns)
    .where(and(eq(trackerRuns.workspaceId, workspaceId), eq(trackerRuns.baseUrl, baseUrl), lte(nextAt, begun)))
    .orderBy(asc(nextAt))
    .limit(LANE_RUNS)
    .all();
  for (const run of due) {
    if (live.closing.signal.aborted || ctx.clock.now() - begun > LANE_MS) return;
    if ((await tell(ctx, live, run.jobId)) === "down") {
      lane.failures += 1;
      lane.restUntil = ctx.clock.now() + pauseAfter(lane.failures);
      return;
    }
    lane.failures = 0;
  }
}
