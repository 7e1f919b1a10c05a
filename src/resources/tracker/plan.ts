/** What to tell a tracker next, and what to do when it fails. Pure. */
import type { Point, State } from "./contract.ts";

export type Progress = {
  isOpen: boolean;
  paramsTold: boolean;
  stateTold: string | null;
  /** When something was last told. */
  toldAt: number | null;
};
export type Piece = "open" | "params" | "points" | "state" | "beat" | "wait" | "nothing";

const BEAT_MS = 60_000;
const ENDS: readonly State[] = ["completed", "failed", "cancelled"];

/** `nothing`: all is told, for good. An end is told last: trackers close a run with it. */
export function nextPiece(
  run: Progress,
  job: { state: State; hasPoints: boolean; beats: boolean },
  now: number,
): Piece {
  if (!run.isOpen) return "open";
  if (!run.paramsTold) return "params";
  if (job.hasPoints) return "points";
  if (run.stateTold !== job.state) return "state";
  if (ENDS.includes(job.state)) return "nothing";
  return job.beats && job.state === "running" && now - (run.toldAt ?? 0) >= BEAT_MS ? "beat" : "wait";
}

/** In the tracker's words: one that waits again after a crash still runs, and one that is paused too. */
export function stateOf(status: string, startedAt: number | null): State {
  if (status === "completed" || status === "failed" || status === "cancelled") return status;
  return startedAt === null ? "queued" : "running";
}

const VALUES_AT_ONCE = 900; // MLflow takes 1000

/** As many of the first as fit into one request, at least one. */
export function firstFew(points: readonly Point[]): Point[] {
  let values = 0;
  const end = points.findIndex((point, i) => {
    values += Object.keys(point.values).length;
    return i > 0 && values > VALUES_AT_ONCE;
  });
  return points.slice(0, end < 0 ? undefined : end);
}

const FIRST_PAUSE_MS = 5_000;
const LAST_PAUSE_MS = 600_000;
const MOST_REFUSALS = 10;
const PATIENCE_MS = 72 * 3_600_000;

/** After the n-th failure in a row: 5 s, 10 s, 20 s … 10 min. */
export const pauseAfter = (failures: number) =>
  Math.min(FIRST_PAUSE_MS * 2 ** Math.max(0, failures - 1), LAST_PAUSE_MS);

/** A tracker that is away is waited for, three days; one that keeps refusing the same request is not. */
export const givesUp = (trouble: { refusals: number; failingSince: number }, now: number) =>
  trouble.refusals >= MOST_REFUSALS || now - trouble.failingSince >= PATIENCE_MS;

/** Nested settings by dotted names, values as text. */
export function flatten(values: Record<string, unknown>, prefix = ""): Record<string, string> {
  const flat: Record<string, string> = {};
  for (const [key, value] of Object.entries(values)) {
    const isTree = typeof value === "object" && value !== null && !Array.isArray(value);
    if (isTree) Object.assign(flat, flatten(value as Record<string, unknown>, `${prefix}${key}.`));
    else if (value !== null && value !== undefined)
      flat[prefix + key] = typeof value === "string" ? value : JSON.stringify(value);
  }
  return flat;
}
