/** Fields of the list route that the columns of the list of runs need. Pure. */
const BASE = [
  ...["output_name", "status", "method", "base_model", "dataset", "tags", "group", "notes", "metadata", "error"],
  ...["progress", "load", "queue_reason", "pause_reason", "stopped_early", "headline_metric"],
  ...["created_at", "started_at", "completed_at"],
] as const;
export const SOMETIMES = ["cost_usd", "energy_wh", "seed", "region", "priority"] as const;

export type Sometimes = (typeof SOMETIMES)[number];

/** `set:learning_rate` is a setting, `metric:kl` a metric. A name with a comma cannot be asked for. */
export function ownOf(key: string): { kind: "set" | "metric"; name: string } | undefined {
  const [, kind, name = ""] = /^(set|metric):([^,]+)$/s.exec(key) ?? [];
  return kind === undefined ? undefined : { kind: kind === "set" ? "set" : "metric", name };
}

/** The fields that the columns need, for the list route. */
export function fieldsFor(keys: readonly string[]): string[] {
  const own = keys.flatMap((key) => {
    const column = ownOf(key);
    if (!column) return SOMETIMES.filter((each) => each === key);
    return [`${column.kind === "set" ? "hyperparameters" : "latest_metrics"}.${column.name}`];
  });
  return [...new Set([...BASE, ...own])];
}

/** "a, b" → ["a", "b"] */
export const tagsOf = (text: string): string[] => [
  ...new Set(
    text
      .split(",")
      .map((tag) => tag.trim())
      .filter((tag) => tag !== ""),
  ),
];
