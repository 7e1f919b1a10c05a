/** Pure decisions: what to send to a tracker next, and what to do when it fails. */
import { isObject } from "../../../lib/json/object.ts";
import { HOUR_MS } from "../../../lib/units.ts";
import type { Point, State } from "./contract.ts";

export type Progress = {
  isOpen: boolean;
  paramsSent: boolean;
  stateSent: string | null;
  /** When something was last sent. */
  sentAt: number | null;
};
export type Piece = "open" | "params" | "points" | "state" | "beat" | "wait" | "nothing";

const BEAT_MS = 60_000;
const ENDS: readonly State[] = ["completed", "failed", "cancelled"];

/** `nothing`: everything was sent. The final state comes last, because trackers close a run with it. */
export function nextPiece(
  run: Progress,
  job: { state: State; hasPoints: boolean; beats: boolean },
  now: number,
): Piece {
  if (!run.isOpen) return "open";
  if (!run.paramsSent) return "params";
  if (job.hasPoints) return "points";
  if (run.stateSent !== job.state) return "state";
  if (ENDS.includes(job.state)) return "nothing";
  const sinceMs = Math.abs(now - (run.sentAt ?? 0)); // a clock that was set back must not silence it
  return job.beats && job.state === "running" && sinceMs >= BEAT_MS ? "beat" : "wait";
}

/** The state for the tracker. A job that is queued again after a crash, or paused, still counts as running. */
export function stateOf(status: string, startedAt: number | null): State {
  if (status === "completed" || status === "failed" || status === "cancelled") return status;
  return startedAt === null ? "queued" : "running";
}

const VALUES_AT_ONCE = 900; // MLflow takes 1000

/** The first points, as many as fit into one request, at least one. */
export function firstFew(points: readonly Point[]): Point[] {
  let values = 0;
  const end = points.findIndex((point, i) => {
    values += Object.keys(point.values).length;
    return i > 0 && values > VALUES_AT_ONCE;
  });
  return points.slice(0, end < 0 ? undefined : end);
}

const FIRST_PAUSE_MS = 5_000;
export const LAST_PAUSE_MS = 600_000;
const MOST_REFUSALS = 10;
const GIVE_UP_MS = 72 * HOUR_MS;

/** After the n-th failure in a row: 5 s, 10 s, 20 s … 10 min. */
export const pauseAfter = (failures: number) =>
  Math.min(FIRST_PAUSE_MS * 2 ** Math.max(0, failures - 1), LAST_PAUSE_MS);

/** Gives up after three days without an answer, or after the same request was refused ten times. */
export const givesUp = (trouble: { refusals: number; failingSince: number }, now: number) =>
  trouble.refusals >= MOST_REFUSALS || now - trouble.failingSince >= GIVE_UP_MS;

/** Nested values by dotted names, as text. */
export function flatten(values: Record<string, unknown>, prefix = ""): Record<string, string> {
  const flat: Record<string, string> = {};
  for (const [key, value] of Object.entries(values)) {
    const isTree = isObject(value);
    if (isTree) Object.assign(flat, flatten(value as Record<string, unknown>, `${prefix}${key}.`));
    else if (value !== null && value !== undefined)
      flat[prefix + key] = typeof value === "string" ? value : JSON.stringify(value);
  }
  return flat;
}
