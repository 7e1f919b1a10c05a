/** The event kinds that endpoints can ask for, for those who do not load the catalogue; a test keeps them equal. */
export const KINDS = [
  "deployment.serving",
  "deployment.failed",
  "deployment.scaled_to_zero",
  "dataset.rows_appended",
  "dataset.snapshot_created",
  "job.completed",
  "job.failed",
  "webhook.test",
] as const;
