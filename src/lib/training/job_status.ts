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

export const JOB_ENDS = ["completed", "failed", "cancelled"] as const satisfies readonly JobStatus[];

export const isJobOver = (status: string): boolean => (JOB_ENDS as readonly string[]).includes(status);
