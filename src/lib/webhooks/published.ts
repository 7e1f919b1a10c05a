/**
 * The event types that webhook endpoints can subscribe to. It stands apart from the catalogue, whose schemas the command
 * line and the browser need not load. A test compares both.
 */
export const PUBLISHED_TYPES = [
  "deployment.switched",
  "deployment.switch_failed",
  "deployment.serving",
  "deployment.failed",
  "deployment.scaled_to_zero",
  "dataset.rows_appended",
  "dataset.snapshot_created",
  "experiment.completed",
  "experiment.failed",
  "job.completed",
  "job.failed",
  "credit.low",
  "credit.exhausted",
  "monitor.triggered",
  "monitor.recovered",
  "webhook.test",
] as const;
