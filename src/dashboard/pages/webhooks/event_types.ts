/** Types that an endpoint can subscribe to. A test compares the list with the catalog of events. */
export const EVENT_TYPES = [
  "job.completed",
  "job.failed",
  "deployment.serving",
  "deployment.failed",
  "deployment.scaled_to_zero",
  "dataset.rows_appended",
  "dataset.snapshot_created",
  "webhook.test",
] as const;
