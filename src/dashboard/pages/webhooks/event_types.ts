/** Types that an endpoint can subscribe to. A test compares the list with the catalog of events. */
export const EVENT_TYPES = [
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
  "monitor.triggered",
  "monitor.recovered",
  "webhook.test",
] as const;
