import { lifecycle } from "../../../events/lifecycle.ts";
import { hubPushes, type PushRow } from "./table.ts";

export const report = ({ id, status, repo, url, jobId, modelId, error }: PushRow) => ({
  object: "hub_push" as const,
  id,
  status,
  repo,
  url,
  job_id: jobId,
  model_id: modelId,
  error,
});

// biome-ignore format: a table should look like one
export const machine = lifecycle({
  table: hubPushes,
  initial: "preparing",
  terminal: ["completed", "failed", "cancelled"],
  report,
  workspaceOf: (row) => row.workspaceId,
  steps: {
    // action    from                        to            event
    push:      [["preparing"],             "pushing",    null], // the files are made
    complete:  [["pushing"],               "completed",  "hub_push.completed"],
    fail:      [["preparing", "pushing"],  "failed",     "hub_push.failed"],
    cancel:    [["preparing", "pushing"],  "cancelled",  "hub_push.cancelled"],
  },
});
