/** The loop that reports to trackers. A tick starts what may start and does not wait for it. */
import { and, asc, eq, gt, lte, min, or, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { prepared } from "../../../platform/db/db.ts";
import type { Destination } from "./live.ts";
import { LAST_PAUSE_MS, pauseAfter } from "./plan.ts";
import { report } from "./report.ts";
import { trackerRuns } from "./table.ts";

const TURN_RUNS = 100;
const TURN_MS = 30_000;

type Address = { workspaceId: string; baseUrl: string };

export function track(ctx: Ctx): void {
  const { tracker } = ctx.state;
  const now = ctx.clock.now();
  if (tracker.signal.aborted) return;
  const ready = dueAddresses(ctx.db)
    .all({ now, latest: now + LAST_PAUSE_MS })
    .map((address) => ({ ...address, destination: tracker.destination(address.workspaceId, address.baseUrl) }))
    .filter(({ destination }) => !destination.isBusy && destination.restUntil <= ctx.clock.steady());
  tracker.permits.fillFrom(ready, ({ destination, ...address }, release) => {
    const work = reportDue(ctx, destination, address)
      .catch((error) => ctx.log.error("reporting to a tracker failed", { error }))
      .finally(release);
    tracker.run(destination, work);
  });
}

/** A time further ahead than any pause was written by a wrong clock. */
const isDue = (now: number) => or(lte(trackerRuns.nextAt, now), gt(trackerRuns.nextAt, now + LAST_PAUSE_MS));

/** Addresses with something due. Those that waited longest come first. */
const dueAddresses = prepared((db) => {
  const { workspaceId, baseUrl, nextAt } = trackerRuns;
  return db
    .select({ workspaceId, baseUrl })
    .from(trackerRuns)
    .where(or(lte(nextAt, sql.placeholder("now")), gt(nextAt, sql.placeholder("latest"))))
    .groupBy(workspaceId, baseUrl)
    .orderBy(asc(min(nextAt)))
    .prepare();
});

async function reportDue(ctx: Ctx, destination: Destination, { workspaceId, baseUrl }: Address): Promise<void> {
  const begun = ctx.clock.now();
  const { jobId, nextAt } = trackerRuns;
  const due = ctx.db
    .select({ jobId })
    .from(trackerRuns)
    .where(and(eq(trackerRuns.workspaceId, workspaceId), eq(trackerRuns.baseUrl, baseUrl), isDue(begun)))
    .orderBy(asc(nextAt))
    .limit(TURN_RUNS)
    .all();
  for (const run of due) {
    if (ctx.state.tracker.signal.aborted || ctx.clock.now() - begun > TURN_MS) return;
    if ((await report(ctx, run.jobId)) === "down") {
      destination.failures += 1;
      destination.restUntil = ctx.clock.steady() + pauseAfter(destination.failures);
      return;
    }
    destination.failures = 0;
  }
}
