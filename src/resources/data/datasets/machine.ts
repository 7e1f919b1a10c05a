import { lifecycle } from "../../../events/lifecycle.ts";
import { presentResolution } from "./schema.ts";
import { datasetResolutions } from "./table.ts";

// biome-ignore format: a table should look like one
export const machine = lifecycle({
  table: datasetResolutions,
  initial: "pending",
  terminal: ["completed", "failed", "cancelled"],
  report: presentResolution,
  workspaceOf: (row) => row.workspaceId,
  steps: {
    // action    from                     to           event
    start:    [["pending"],             "running",   null],
    complete: [["pending", "running"],  "completed", "dataset_resolution.completed"],
    fail:     [["pending", "running"],  "failed",    "dataset_resolution.failed"],
    cancel:   [["pending", "running"],  "cancelled", "dataset_resolution.cancelled"],
  },
});
