/**
 * The energy that jobs use, from the power that their cards report. Each reading is one commit with what it adds, so a
 * kill costs the seconds since the last one and counts none twice. A card that does not tell its power adds nothing.
 */
import { and, eq, isNotNull, ne, sql } from "drizzle-orm";
import type { Ctx } from "../../context.ts";
import { closed, meanWatts, read } from "../../lib/pricing/energy.ts";
import { type Tx, write } from "../../platform/db/db.ts";
import { runTime } from "../billing/run_time.ts";
import * as gpu from "../gpu/service.ts";
import { type JobRow, trainingJobs } from "../training_jobs/table.ts";
import { powerReadings } from "./table.ts";

const onCards = and(isNotNull(trainingJobs.runSince), ne(trainingJobs.gpuType, "cpu"));

/** One reading for every job that runs on a card. Nobody is asked where none does. */
export async function sample(ctx: Ctx): Promise<void> {
  if (!ctx.db.select({ id: trainingJobs.id }).from(trainingJobs).where(onCards).get()) return;
  const watts = new Map((await gpu.devices(ctx)).map(({ id, powerWatts }) => [id, powerWatts]));
  write(ctx.db, (tx) => {
    const holders = gpu.holders(ctx);
    const now = ctx.clock.now();
    for (const job of tx.select().from(trainingJobs).where(onCards).all()) {
      const drawn = drawnBy(job.id, holders, watts);
      if (drawn) count(tx, job, drawn, { at: runTime(ctx, job.id), now });
    }
  });
}

type Drawn = { watts: number; alone: boolean };

/** Undefined: it holds no card, or one of its cards does not tell. A card's power is shared by those at work on it. */
export function drawnBy(
  holder: string,
  holders: readonly gpu.Holder[],
  watts: ReadonlyMap<string, number | null>,
): Drawn | undefined {
  const own = holders.filter((each) => each.holder === holder);
  let total = 0;
  let alone = true;
  for (const { device } of own) {
    const drawn = watts.get(device);
    if (drawn === undefined || drawn === null) return undefined;
    const sharing = holders.filter((each) => each.device === device && (each.holder === holder || !each.idle)).length;
    total += drawn / sharing;
    alone &&= holders.filter((each) => each.device === device).length === 1;
  }
  return own.length === 0 ? undefined : { watts: total, alone };
}

/** `at`: in the time of the job's run. */
function count(tx: Tx, job: JobRow, { watts, alone }: Drawn, { at, now }: { at: number; now: number }) {
  const { counted, joules, ms } = read(job, watts, at);
  tx.update(trainingJobs).set(counted).where(eq(trainingJobs.id, job.id)).run();
  if (!alone || ms === 0) return;
  const workMs = ms * job.gpuCount;
  tx.insert(powerReadings)
    .values({ gpuType: job.gpuType, energyJoules: joules, workMs, updatedAt: now })
    .onConflictDoUpdate({
      target: powerReadings.gpuType,
      set: {
        energyJoules: sql`${powerReadings.energyJoules} + ${joules}`,
        workMs: sql`${powerReadings.workMs} + ${workMs}`,
        updatedAt: now,
      },
    })
    .run();
}

/** What the end of a run adds, to go into the job's row with it. */
export const atEnd = (job: JobRow, to: number) => closed(job, to);

/** Mean watts of one device at work, by type: of those that were measured for long enough. */
export function measuredWatts(ctx: Pick<Ctx, "db">): Map<string, number> {
  const rows = ctx.db.select().from(powerReadings).all();
  return new Map(
    rows.flatMap(({ gpuType, energyJoules, workMs }) => {
      const watts = meanWatts(energyJoules, workMs);
      return watts === undefined ? [] : [[gpuType, watts]];
    }),
  );
}
