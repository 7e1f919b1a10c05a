/**
 * What is at work is metered by the time of day, which somebody may set. Then its beginning is moved by as much, so that
 * it has been at work for as long as before: no hour is free, and none is charged that did not pass.
 */
import { isNotNull, sql } from "drizzle-orm";
import type { Ctx } from "../../context.ts";
import { oncePer } from "../../lib/once_per.ts";
import { type Db, write } from "../../platform/db/db.ts";
import { deployments } from "../deployments/table.ts";
import { trainingJobs } from "../training_jobs/table.ts";

const NOTICED_MS = 1_000;

/** The time of day less the steady one, as the rows have it. */
const offsetOf = oncePer((_db: Db): { ms?: number } => ({}));

/** Often, and before anything is accounted for. */
export function followClock({ db, clock }: Pick<Ctx, "db" | "clock">) {
  const offset = offsetOf(db);
  offset.ms ??= clock.now() - clock.steady();
  const by = Math.round(clock.now() - clock.steady() - offset.ms);
  if (Math.abs(by) < NOTICED_MS) return;
  write(db, (tx) => {
    const { runSince, runUntil, updatedAt, energyAt } = trainingJobs;
    const seen = sql`max(coalesce(${runUntil}, 0), ${updatedAt})`;
    tx.update(trainingJobs)
      .set({
        runSince: sql`${runSince} + ${by}`,
        runUntil: sql`${seen} + ${by}`,
        energyAt: sql`${energyAt} + ${by}`,
        updatedAt: sql`${updatedAt} + ${Math.min(0, by)}`, // not in the future: it says when a run was seen
      })
      .where(isNotNull(runSince))
      .run();
    const { upSince, billedUntil } = deployments;
    tx.update(deployments)
      .set({ upSince: sql`${upSince} + ${by}`, billedUntil: sql`${billedUntil} + ${by}` })
      .where(isNotNull(upSince))
      .run();
  });
  offset.ms += by;
}
