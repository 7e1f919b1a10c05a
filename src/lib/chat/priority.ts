/** Priorities of requests, the most urgent first. A request takes the place of one behind it. */
export const PRIORITIES = ["interactive", "normal", "batch", "rollout"] as const;
export type Priority = (typeof PRIORITIES)[number];

/** The rank of a priority; 0 is the most urgent. */
export const rankOf = (priority: Priority): number => PRIORITIES.indexOf(priority);
