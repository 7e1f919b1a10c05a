/** Pure decisions of an experiment: the order of its work, what is due, what a fault means, and how it ends. */
import { AppError, type ErrorCode } from "../../../lib/errors.ts";

/** The baseline goes first, so that a pairwise evaluator has its answers. Each target is run to its end before the next. */
export const targetOrder = (count: number, baseline: number): number[] => [
  baseline,
  ...Array.from({ length: count }, (_, i) => i).filter((i) => i !== baseline),
];

/** Rows of one page that still need work, in their order. */
export const dueRows = <T extends { rowId: number }>(rows: readonly T[], finished: ReadonlySet<number>): T[] =>
  rows.filter(({ rowId }) => !finished.has(rowId));

/** A higher score is better. A missing score on either side is no regression. */
export const isRegression = (score: number | null, baseline: number | null): boolean =>
  score !== null && baseline !== null && score < baseline;

/** The target may answer later: its deployment wakes, waits for memory, or has too many requests. */
const WAITS: readonly ErrorCode[] = ["deployment_waking", "no_capacity", "rate_limited", "queue_full"];
/** The same request may succeed on another replica. A prompt that kills every replica ends after `MAX_ATTEMPTS`. */
const RETRIES: readonly ErrorCode[] = ["worker_failed", "sandbox_unavailable"];
/** The server itself is in trouble. The experiment pauses, and the item stays due. */
const PAUSES: readonly ErrorCode[] = ["storage_unavailable", "shutting_down"];
/** The target itself cannot answer any row. */
const ENDS: readonly ErrorCode[] = [
  "resource_not_found",
  "unsupported_state",
  "insufficient_credits",
  "budget_exceeded",
];
export const MAX_ATTEMPTS = 4;
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 15_000;

/** `item`: the error is the result of the item. `experiment`: the experiment fails. `server`: the experiment pauses. */
export type Decision =
  | { kind: "retry"; pauseMs: number }
  | { kind: "item" }
  | { kind: "experiment" }
  | { kind: "server" };

/** `attempts`: failed attempts of this item so far, this one included. */
export function afterFault(error: unknown, attempts: number): Decision {
  if (!(error instanceof AppError)) return { kind: "item" };
  const retry = { kind: "retry", pauseMs: Math.min(FIRST_PAUSE_MS * 2 ** (attempts - 1), LONGEST_PAUSE_MS) } as const;
  if (PAUSES.includes(error.code)) return { kind: "server" };
  if (WAITS.includes(error.code)) return retry;
  if (RETRIES.includes(error.code) && attempts < MAX_ATTEMPTS) return retry;
  return ENDS.includes(error.code) ? { kind: "experiment" } : { kind: "item" };
}

export type TargetCount = { name: string; items: number; failed: number };

/** The reason why an experiment with these results fails. Undefined: it completes. */
export function failureOf(counts: readonly TargetCount[]): string | undefined {
  const barren = counts.find(({ items, failed }) => items > 0 && failed === items);
  return barren && `Every item of ${barren.name} has an error: the items say why`;
}
