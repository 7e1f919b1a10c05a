/**
 * Counters of events that are in no row. A module declares what it counts and counts it: `const sent =
 * counter("verk_things_sent_total", "Things sent", ["result"])`, then `sent.add(db, workspaceId, ["ok"])`. Everything
 * declared is in GET /v1/metrics.
 *
 * `counted` is what happened, `stored` is the part that is on the disk. Only `stored` is shown: after a kill the
 * numbers continue from it, so no counter falls. A kill loses what was counted since.
 *
 * The number of series is bounded: a full family counts everything new in one series `other`.
 */
import type { Db } from "./db/db.ts";

export type CountedFamily = {
  readonly name: string;
  readonly help: string;
  /** Label names beside the workspace. */
  readonly labels: readonly string[];
  /** Upper bounds of the buckets of a histogram, rising; empty: a counter. */
  readonly bounds: readonly number[];
};

/** A counter has one number; a histogram its sum and then a number for each bucket, not added up. */
export type Series = {
  readonly family: CountedFamily;
  /** Empty: of no workspace, shown to the operator alone. */
  readonly workspaceId: string;
  readonly labels: readonly string[];
  readonly counted: number[];
  stored: readonly number[];
};

export const MOST_SERIES = 2_000; // of a family
const OTHER = "other";

const families = new Map<string, CountedFamily>();

function declare(family: CountedFamily): CountedFamily {
  if (families.has(family.name)) throw new Error(`Two families of metrics are called ${family.name}`);
  families.set(family.name, family);
  return family;
}

export const allFamilies = (): CountedFamily[] => [...families.values()];
export const allSeries = (db: Db, name: string): Series[] => [...(db.$series.get(name)?.values() ?? [])];

export type Counter = {
  add: (db: Db, workspaceId: string, labels: readonly string[], by?: number) => void;
  /** The series itself, for a path so hot that it keeps it: `series.counted[0]++`. */
  at: (db: Db, workspaceId: string, labels: readonly string[]) => Series;
};
export type Observed = {
  observe: (db: Db, workspaceId: string, labels: readonly string[], value: number) => void;
  at: (db: Db, workspaceId: string, labels: readonly string[]) => Series;
};

export function counter(name: string, help: string, labels: readonly string[]): Counter {
  const family = declare({ name, help, labels, bounds: [] });
  const at: Counter["at"] = (db, workspaceId, values) => find(db, family, workspaceId, values);
  return {
    at,
    add(db, workspaceId, values, by = 1) {
      const { counted } = at(db, workspaceId, values);
      counted[0] = (counted[0] ?? 0) + by;
    },
  };
}

/** `bounds`: upper bounds of the buckets. */
export function histogram(name: string, help: string, labels: readonly string[], bounds: readonly number[]): Observed {
  const family = declare({ name, help, labels, bounds });
  const at: Observed["at"] = (db, workspaceId, values) => find(db, family, workspaceId, values);
  return { at, observe: (db, workspaceId, values, value) => observe(at(db, workspaceId, values), value) };
}

export function observe({ family: { bounds }, counted }: Series, value: number) {
  let bucket = 0;
  while (bucket < bounds.length && value > (bounds[bucket] as number)) bucket++;
  counted[0] = (counted[0] as number) + value;
  counted[bucket + 1] = (counted[bucket + 1] as number) + 1;
}

const keyOf = (workspaceId: string, labels: readonly string[]) => [workspaceId, ...labels].join("\0");

function find(db: Db, family: CountedFamily, workspaceId: string, labels: readonly string[]): Series {
  const familySeries = knownOf(db, family);
  const series = familySeries.get(keyOf(workspaceId, labels));
  if (series) return series;
  if (familySeries.size < MOST_SERIES) return begin(familySeries, { family, workspaceId, labels });
  const others = { family, workspaceId: "", labels: family.labels.map(() => OTHER) };
  return familySeries.get(keyOf("", others.labels)) ?? begin(familySeries, others);
}

function knownOf(db: Db, { name }: CountedFamily): Map<string, Series> {
  const all = db.$series;
  const familySeries = all.get(name) ?? new Map<string, Series>();
  all.set(name, familySeries);
  return familySeries;
}

function begin(familySeries: Map<string, Series>, what: Pick<Series, "family" | "workspaceId" | "labels">): Series {
  const none = new Array<number>(what.family.bounds.length === 0 ? 1 : what.family.bounds.length + 2).fill(0);
  const series: Series = { ...what, counted: [...none], stored: none };
  familySeries.set(keyOf(what.workspaceId, what.labels), series);
  return series;
}

export type StoredSeries = { name: string; workspaceId: string; labels: readonly string[]; counted: readonly number[] };

/** Adds the counts of an earlier process. An entry that does not fit its family as it is now is ignored. */
export function restore(db: Db, { name, workspaceId, labels, counted }: StoredSeries) {
  const family = families.get(name);
  if (!family || family.labels.length !== labels.length) return;
  const familySeries = knownOf(db, family);
  const series = familySeries.get(keyOf(workspaceId, labels)) ?? begin(familySeries, { family, workspaceId, labels });
  if (series.counted.length !== counted.length) return;
  for (const [i, value] of counted.entries()) series.counted[i] = (series.counted[i] as number) + value;
  series.stored = counted;
}

export const isDirty = ({ counted, stored }: Series) => counted.some((value, i) => value !== stored[i]);

/** Removes all series of these workspaces. */
export function forget(db: Db, workspaceIds: ReadonlySet<string>) {
  for (const familySeries of db.$series.values())
    for (const [key, series] of familySeries) if (workspaceIds.has(series.workspaceId)) familySeries.delete(key);
}
