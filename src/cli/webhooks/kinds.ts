/**
 * The event types that endpoints can subscribe to. A copy, so that the commands need not load the catalogue; a test
 * compares both.
 */
export const KINDS = [
  "deployment.serving",
  "deployment.failed",
  "deployment.scaled_to_zero",
  "dataset.rows_appended",
  "dataset.snapshot_created",
  "experiment.completed",
  "experiment.failed",
  "job.completed",
  "job.failed",
  "webhook.test",
] as const;
