/** Filters of the list of traces: each is a value in the address, and most are a parameter of the API too. */
const SAME = [
  ...["q", "deployment_id", "key_id", "status", "source", "conversation_id", "job_id"],
  ...["min_duration_ms", "max_duration_ms", "score", "min_score", "max_score", "since", "until"],
] as const;
export type FilterName = (typeof SAME)[number] | "time";
export const FILTERS: readonly FilterName[] = [...SAME, "time"];

/** Times before now, in milliseconds. */
export const TIMES: Readonly<Record<string, readonly [shown: string, ms: number]>> = {
  "1h": ["Last hour", 3_600_000],
  "1d": ["Last day", 86_400_000],
  "7d": ["Last 7 days", 7 * 86_400_000],
};

const STEP_MS = 60_000; // the address of the API stays the same for a minute, so that a redraw loads nothing

/** The path of the API for these filters. `min_score` without `score` is left out: the API would refuse it. */
export function pathOf(filter: (name: FilterName) => string | undefined, nowMs: number): string {
  const query = new URLSearchParams({ limit: "50" });
  const hasScore = filter("score") !== undefined;
  for (const name of SAME) {
    const value = filter(name);
    if (value === undefined || value === "" || (!hasScore && name.endsWith("_score"))) continue;
    query.set(name, value);
  }
  const [, ms] = TIMES[filter("time") ?? ""] ?? [];
  if (ms !== undefined) query.set("since", new Date(Math.floor((nowMs - ms) / STEP_MS) * STEP_MS).toISOString());
  return `/v1/traces?${query}`;
}
