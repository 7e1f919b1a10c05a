import { lifecycle } from "../../../events/lifecycle.ts";
import { JOB_ENDS } from "../../../lib/training/job_status.ts";
import { type JobRow, trainingJobs } from "./table.ts";

export const report = ({ id, status, baseModel, method, pauseReason }: JobRow) => ({
  object: "job" as const,
  id,
  status,
  model: method === "custom" ? null : baseModel,
  reason: pauseReason,
});

/**
 * `requeue` is every way back into the queue: the worker crashed, the server restarted, memory ran out and a smaller
 * batch is tried, a paused job was resumed. The job then resumes from its newest checkpoint.
 */
// biome-ignore format: a table should look like one
export const machine = lifecycle({
  table: trainingJobs,
  initial: "queued",
  terminal: JOB_ENDS,
  report,
  workspaceOf: (row) => row.workspaceId,
  steps: {
    // action    from                                             to               event
    provision: [["queued"],                                     "provisioning",  "job.provisioning"],
    run:       [["provisioning"],                               "running",       "job.running"],
    requeue:   [["provisioning", "running", "paused"],          "queued",        "job.requeued"],
    pause:     [["queued", "provisioning", "running"],          "paused",        "job.paused"],
    cancel:    [["provisioning", "running"],                    "cancelling",    "job.cancelling"], // until its worker has ended
    drop:      [["queued", "paused", "cancelling"],             "cancelled",     "job.cancelled"],
    complete:  [["running"],                                    "completed",     "job.completed"],
    fail:      [["queued", "provisioning", "running"],          "failed",        "job.failed"],
    reject:    [["queued", "paused"],                           "failed",        "job.failed"], // its dataset cannot be read
  },
});
export type Action = keyof typeof machine.steps;
