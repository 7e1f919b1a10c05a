/** Priorities of requests, the most urgent first. A request takes the place of one behind it. */
export const PRIORITIES = ["interactive", "normal", "batch", "rollout"] as const;
export type Priority = (typeof PRIORITIES)[number];

/** The rank of a priority; 0 is the most urgent. */
export const rankOf = (priority: Priority): number => PRIORITIES.indexOf(priority);

/** The wanted priority, or the most urgent one that is allowed. Null: no wish; no limit. */
export function boundedPriority(wanted: Priority | null, most: Priority | null): Priority | null {
  if (wanted === null || most === null) return wanted ?? most;
  return PRIORITIES[Math.max(rankOf(wanted), rankOf(most))]!;
}
