/**
 * The energy of jobs, from the power that their GPUs report. Each reading is one commit with its energy, so a kill loses
 * the seconds since the last reading and counts none twice. A GPU that reports no power adds nothing.
 */
import { and, eq, isNotNull, ne, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { prepared, type Tx, write } from "../../../platform/db/db.ts";
import * as gpu from "../../machines/gpu/service.ts";
import { type JobRow, trainingJobs } from "../../training/training_jobs/table.ts";
import { runTime } from "../billing/run_time.ts";
import { powerReadings } from "./table.ts";
import { closed, meanWatts, read } from "./watts.ts";

const onCards = and(isNotNull(trainingJobs.runSince), ne(trainingJobs.gpuType, "cpu"));

const jobsOnCards = prepared((db) => db.select({ id: trainingJobs.id }).from(trainingJobs).where(onCards).prepare());

/** Reads once for every job that runs on a GPU. If no job does, the GPUs are not read. */
export async function sample(ctx: Ctx): Promise<void> {
  const running = jobsOnCards(ctx.db).all();
  ctx.state.energy.keepOnly(new Set(running.map(({ id }) => id)));
  if (running.length === 0) return;
  const watts = new Map((await gpu.devices(ctx)).map(({ id, powerWatts }) => [id, powerWatts]));
  const readings = write(ctx.db, (tx) => {
    const holders = gpu.holders(ctx);
    const now = ctx.clock.now();
    const jobs = tx.select().from(trainingJobs).where(onCards).all();
    return jobs.flatMap((job) => {
      const power = powerOf(job.id, holders, watts);
      return power ? [addEnergy(tx, job, power, { at: runTime(ctx, job.id), now })] : [];
    });
  });
  for (const { id, joules, ms } of readings) if (ms > 0) ctx.state.energy.add(id, joules, ms);
}

/** `alone`: no other holder has memory on its GPUs. */
type Power = { watts: number; alone: boolean };

/** Holders that are at work on a GPU share its power. Undefined without a GPU, or if one of its GPUs reports no power. */
export function powerOf(
  holder: string,
  holders: readonly gpu.Holder[],
  watts: ReadonlyMap<string, number | null>,
): Power | undefined {
  const leases = holders.filter((each) => each.holder === holder);
  let total = 0;
  let alone = true;
  for (const { device } of leases) {
    const drawn = watts.get(device);
    if (drawn === undefined || drawn === null) return undefined;
    const sharing = holders.filter((each) => each.device === device && (each.holder === holder || !each.idle)).length;
    total += drawn / sharing;
    alone &&= holders.filter((each) => each.device === device).length === 1;
  }
  return leases.length === 0 ? undefined : { watts: total, alone };
}

/** `at`: in the time of the job's run. */
function addEnergy(tx: Tx, job: JobRow, { watts, alone }: Power, { at, now }: { at: number; now: number }) {
  const { counted, joules, ms } = read(job, watts, at);
  tx.update(trainingJobs).set(counted).where(eq(trainingJobs.id, job.id)).run();
  if (alone && ms > 0) addToType(tx, job, joules, { ms, now });
  return { id: job.id, joules, ms };
}

function addToType(tx: Tx, job: JobRow, joules: number, { ms, now }: { ms: number; now: number }) {
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

/** Metrics of a step that took `seconds`: measured power, and energy. Empty if the device reports no power. */
export function metricsOfStep(ctx: Pick<Ctx, "state">, jobId: string, seconds: number | undefined) {
  const watts = ctx.state.energy.takeWatts(jobId);
  return watts === undefined || seconds === undefined
    ? {}
    : { power_watts: watts, step_energy_joules: watts * seconds };
}

/** Columns of the job's row at the end of a run. */
export const atEnd = (job: JobRow, to: number) => closed(job, to);

/** Mean watts of one device at work, by type. Types without enough measurements are left out. */
export function measuredWatts(ctx: Pick<Ctx, "db">): Map<string, number> {
  const rows = ctx.db.select().from(powerReadings).all();
  return new Map(
    rows.flatMap(({ gpuType, energyJoules, workMs }) => {
      const watts = meanWatts(energyJoules, workMs);
      return watts === undefined ? [] : [[gpuType, watts]];
    }),
  );
}
