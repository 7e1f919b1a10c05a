import { lifecycle } from "../../events/lifecycle.ts";
import { type BatchRow, detectionBatches } from "./table.ts";

export const report = (row: BatchRow) => ({
  object: "detection_batch" as const,
  id: row.id,
  status: row.status,
  total: row.total,
  success_count: row.successCount,
  failure_count: row.failureCount,
});

// biome-ignore format: a table should look like one
export const machine = lifecycle({
  table: detectionBatches,
  initial: "queued",
  terminal: ["completed", "cancelled"],
  report,
  workspaceOf: (row) => row.workspaceId,
  steps: {
    // action    from                      to            event
    begin:     [["queued"],               "processing", null],
    complete:  [["queued", "processing"], "completed",  "detection_batch.completed"],
    cancel:    [["queued", "processing"], "cancelled",  "detection_batch.cancelled"],
  },
});
