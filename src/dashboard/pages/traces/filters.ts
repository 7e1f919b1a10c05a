/** Filters of the list of traces: each is a value in the address, and most are a parameter of the API too. */
const SAME = [
  ...["q", "deployment_id", "model", "user", "tag", "key_id", "status", "conversation_id", "job_id"],
  ...["min_duration_ms", "max_duration_ms", "score", "min_score", "max_score", "since", "until"],
] as const;
export type FilterName = (typeof SAME)[number] | "source" | "time";
export const FILTERS: readonly FilterName[] = [...SAME, "source", "time"];

/** `source` of the address for everything that was recorded. Without one, the list has the requests of users. */
export const EVERYTHING = "all";

/** Times before now, in milliseconds. */
export const TIMES: Readonly<Record<string, readonly [shown: string, ms: number]>> = {
  "1h": ["Last hour", 3_600_000],
  "1d": ["Last day", 86_400_000],
  "7d": ["Last 7 days", 7 * 86_400_000],
};

const STEP_MS = 60_000; // the address of the API stays the same for a minute, so that a redraw loads nothing

type Filter = (name: FilterName) => string | undefined;

/** The path of the API for these filters. `min_score` without `score` is left out: the API would refuse it. */
export function pathOf(filter: Filter, nowMs: number): string {
  const query = new URLSearchParams({ limit: "50" });
  const hasScore = filter("score") !== undefined;
  for (const name of SAME) {
    const value = filter(name);
    if (value === undefined || value === "" || (!hasScore && name.endsWith("_score"))) continue;
    query.set(name, value);
  }
  addPeriod(query, filter, nowMs);
  return `/v1/traces?${query}`;
}

/** The path of the counts. They are of the period and the source, whatever else is chosen. */
export function facetsPathOf(filter: Filter, nowMs: number): string {
  const query = new URLSearchParams();
  for (const name of ["since", "until"] as const) {
    const value = filter(name);
    if (value !== undefined && value !== "") query.set(name, value);
  }
  addPeriod(query, filter, nowMs);
  return `/v1/traces/facets?${query}`;
}

function addPeriod(query: URLSearchParams, filter: Filter, nowMs: number) {
  // A link to the traces of a training means its rollouts.
  const source = filter("source") ?? (filter("job_id") === undefined ? "requests" : EVERYTHING);
  if (source !== EVERYTHING) query.set("source", source);
  const [, ms] = TIMES[filter("time") ?? ""] ?? [];
  if (ms !== undefined) query.set("since", new Date(Math.floor((nowMs - ms) / STEP_MS) * STEP_MS).toISOString());
}
