/** Facts of a run in words. Pure. */
import { count, number } from "../../data/format.ts";
import type { TrainingJob } from "./types.ts";

type Pinned = { id: string; name: string | null; snapshot_id: string | null; num_rows?: number | null };

/** "carry @snap-1, 63 rows". A deleted dataset has only its id. */
export const datasetText = ({ id, name, snapshot_id: snapshot, num_rows: rows }: Pinned): string =>
  `${[name ?? id, snapshot].filter(Boolean).join(" ")}${rows == null ? "" : `, ${count(rows)} rows`}`;

type Headline = NonNullable<TrainingJob["headline_metric"]>;

/** "rewards/margins" → "margin". */
export const metricName = (name: string): string => (name === "rewards/margins" ? "margin" : name);

/** "reward 0.938 ↑": the arrow points to where better values are. */
export const headlineText = ({ name, value, better }: Headline): string =>
  `${metricName(name)} ${number(value)} ${better === "higher" ? "↑" : "↓"}`;

/** The same for a reader who sees no arrow. */
export const headlineTitle = ({ name, better }: Headline): string => `${name}: ${better} is better`;
