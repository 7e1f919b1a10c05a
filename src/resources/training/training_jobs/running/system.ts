/** Figures of this machine while jobs run on it: one row for each job every ten seconds, fewer the longer a job runs. */
import { cpus } from "node:os";
import { and, asc, eq, inArray, isNotNull } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { SECOND_MS } from "../../../../lib/units.ts";
import { prepared, type Tx, write } from "../../../../platform/db/db.ts";
import { lacksSpace } from "../../../../platform/machine/disk.ts";
import { describeMachine, diskSpace } from "../../../../platform/machine/hardware.ts";
import * as gpu from "../../../machines/gpu/service.ts";
import { trainingJobs, trainingSystem } from "../table.ts";

const EVERY_MS = 10 * SECOND_MS;
/** Every second row is removed when a job has this many. */
export const MOST_ROWS = 720;

type Values = Record<string, number>;

const jobsHere = prepared((db) =>
  db
    .select({ id: trainingJobs.id })
    .from(trainingJobs)
    .where(and(eq(trainingJobs.status, "running"), eq(trainingJobs.region, "local"), isNotNull(trainingJobs.runSince)))
    .prepare(),
);

/** Measures once for all jobs that run here. Without one, nothing is measured. */
export async function sampleSystem(ctx: Ctx): Promise<void> {
  const running = jobsHere(ctx.db).all();
  const live = ctx.state.trainingJobs;
  const busy = busyShare(live.processorTimes);
  live.processorTimes = busy.times;
  if (running.length === 0 || lacksSpace(ctx) !== undefined) return;
  const [devices, disk] = await Promise.all([gpu.devices(ctx), diskSpace(ctx.config.data_dir)]);
  const { memoryTotalBytes, memoryFreeBytes } = describeMachine();
  const machine = {
    ...(busy.percent === undefined ? {} : { cpu_percent: busy.percent }),
    memory_bytes: memoryTotalBytes - memoryFreeBytes,
    disk_bytes: disk.totalBytes - disk.freeBytes,
  };
  const holders = gpu.holders(ctx);
  const now = ctx.clock.now();
  for (const { id } of running) {
    const held = new Set(holders.filter(({ holder }) => holder === id).map(({ device }) => device));
    const cards = devices.filter((device) => device.uuid !== null && held.has(device.id));
    write(ctx.db, (tx) => store(tx, id, now, { ...cardFigures(cards), ...machine }));
  }
}

type Card = Pick<
  Awaited<ReturnType<typeof gpu.devices>>[number],
  "usedBytes" | "utilizationPercent" | "powerWatts" | "temperatureCelsius"
>;

/** Several cards: the mean of their use, the sum of memory and power, the highest temperature. Without cards nothing. */
export function cardFigures(cards: readonly Card[]): Values {
  if (cards.length === 0) return {};
  const known = (of: (card: Card) => number | null) => cards.flatMap((card) => of(card) ?? []);
  const sum = (values: readonly number[]) => values.reduce((a, b) => a + b, 0);
  const figure = (name: string, values: readonly number[], join: (values: readonly number[]) => number) =>
    values.length === 0 ? {} : { [name]: join(values) };
  return {
    ...figure(
      "gpu_percent",
      known(({ utilizationPercent }) => utilizationPercent),
      (all) => sum(all) / all.length,
    ),
    ...figure(
      "gpu_memory_bytes",
      known(({ usedBytes }) => usedBytes),
      sum,
    ),
    ...figure(
      "gpu_power_watts",
      known(({ powerWatts }) => powerWatts),
      sum,
    ),
    ...figure(
      "gpu_temperature_celsius",
      known(({ temperatureCelsius }) => temperatureCelsius),
      (all) => Math.max(...all),
    ),
  };
}

/** Does nothing while the newest row is young: the longer a job runs, the further its rows are apart. */
export function store(tx: Tx, jobId: string, time: number, values: Values) {
  const ofJob = eq(trainingSystem.jobId, jobId);
  const times = tx
    .select({ time: trainingSystem.time })
    .from(trainingSystem)
    .where(ofJob)
    .orderBy(asc(trainingSystem.time))
    .all();
  const [first, last] = [times[0]?.time, times.at(-1)?.time];
  if (first !== undefined && last !== undefined && time - last < gapMs(last - first)) return;
  if (times.length >= MOST_ROWS) {
    const every2nd = times.flatMap((row, i) => (i % 2 === 1 ? [row.time] : []));
    tx.delete(trainingSystem)
      .where(and(ofJob, inArray(trainingSystem.time, every2nd)))
      .run();
  }
  tx.insert(trainingSystem).values({ jobId, time, values }).onConflictDoNothing().run();
}

/** A little less than ten seconds, so that a loop that comes early is not a loop too late. */
const gapMs = (spanMs: number) => Math.max(EVERY_MS * 0.9, spanMs / (MOST_ROWS / 2));

export type ProcessorTimes = { busy: number; all: number };

/** The share of all processors that was used since `before`, in percent. Undefined in the first call. */
function busyShare(before: ProcessorTimes | undefined): { percent: number | undefined; times: ProcessorTimes } {
  const times = { busy: 0, all: 0 };
  for (const { times: of } of cpus()) {
    const all = of.user + of.nice + of.sys + of.idle + of.irq;
    times.all += all;
    times.busy += all - of.idle;
  }
  const all = before ? times.all - before.all : 0;
  return { percent: before && all > 0 ? (100 * (times.busy - before.busy)) / all : undefined, times };
}
