/** The states of a training job. Which may follow which: `src/resources/training/training_jobs/machine.ts`. */
export const JOB_STATUSES = [
  "queued",
  "provisioning",
  "running",
  "paused",
  "cancelling",
  "completed",
  "failed",
  "cancelled",
] as const;
export type JobStatus = (typeof JOB_STATUSES)[number];

/** Jobs that are not over: those that work first. */
export const JOB_ACTIVE = [
  "running",
  "provisioning",
  "queued",
  "paused",
  "cancelling",
] as const satisfies readonly JobStatus[];

export const JOB_ENDS = ["completed", "failed", "cancelled"] as const satisfies readonly JobStatus[];

export const isJobOver = (status: string): boolean => (JOB_ENDS as readonly string[]).includes(status);
