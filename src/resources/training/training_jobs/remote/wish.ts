import type { JobStatus } from "../../../../lib/training/job_status.ts";

/** The next act of a run, by the status of its job. A job that was paused or queued again ends its run with a checkpoint. Pure. */
export function wish(status: JobStatus): "go on" | "save" | "stop" {
  if (status === "provisioning" || status === "running") return "go on";
  return status === "paused" || status === "queued" ? "save" : "stop";
}
