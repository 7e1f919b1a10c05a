import { lifecycle } from "../../../events/lifecycle.ts";
import { type ExperimentRow, experiments } from "./table.ts";

export const report = (row: ExperimentRow) => ({
  object: "experiment" as const,
  id: row.id,
  name: row.name,
  status: row.status,
  items_total: row.rowCount * row.targets.length,
  items_done: row.itemsDone,
  items_failed: row.itemsFailed,
});

/** A running experiment stays `running` over a restart: its items say what is left. */
// biome-ignore format: a table should look like one
export const machine = lifecycle({
  table: experiments,
  initial: "queued",
  terminal: ["completed", "failed", "cancelled"],
  report,
  workspaceOf: (row) => row.workspaceId,
  steps: {
    // action    from                   to           event
    begin:     [["queued"],            "running",   null],
    complete:  [["running"],           "completed", "experiment.completed"],
    fail:      [["queued", "running"], "failed",    "experiment.failed"],
    cancel:    [["queued", "running"], "cancelled", "experiment.cancelled"],
  },
});
