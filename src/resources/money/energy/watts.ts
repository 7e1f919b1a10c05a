/**
 * Energy from readings of power. A meter has counted up to `energyAt` in the run since `runSince`. Between two readings
 * power is taken as a straight line. No interval is counted twice.
 */
export type Meter = {
  runSince: number | null;
  /** Null: never measured. */
  energyJoules: number | null;
  /** The last reading, and when. */
  energyWatts: number | null;
  energyAt: number | null;
};
export type Counted = Omit<Meter, "runSince">;

/** A reading, while a run goes on. `joules`: what it adds. */
export function read(meter: Meter, watts: number, now: number): { counted: Counted; joules: number; ms: number } {
  const since = sinceOf(meter) ?? now;
  const before = isOfThisRun(meter) ? (meter.energyWatts ?? watts) : watts;
  const ms = Math.max(0, now - since);
  const joules = Math.round(((before + watts) / 2) * (ms / 1000));
  const counted = {
    energyJoules: (meter.energyJoules ?? 0) + joules,
    energyWatts: watts,
    energyAt: Math.max(now, since),
  };
  return { counted, joules, ms };
}

/** The run ends at `to`: since the last reading it went on as it was then. Nothing where there was none. */
export function closed(meter: Meter, to: number): Partial<Counted> {
  if (!isOfThisRun(meter) || meter.energyWatts === null || meter.energyAt === null) return {};
  const joules = Math.round(meter.energyWatts * (Math.max(0, to - meter.energyAt) / 1000));
  return {
    energyJoules: (meter.energyJoules ?? 0) + joules,
    energyAt: Math.max(to, meter.energyAt),
    energyWatts: null,
  };
}

const isOfThisRun = ({ runSince, energyAt }: Meter) => runSince !== null && energyAt !== null && energyAt >= runSince;
const sinceOf = (meter: Meter) => (isOfThisRun(meter) ? meter.energyAt : meter.runSince);

export const wattHours = (joules: number | null): number | null =>
  joules === null ? null : Number((joules / 3600).toFixed(3));

const ENOUGH_MS = 600_000;

/** Mean watts of one device at work; undefined until ten minutes were measured. */
export const meanWatts = (joules: number, ms: number): number | undefined =>
  ms < ENOUGH_MS ? undefined : joules / (ms / 1000);
