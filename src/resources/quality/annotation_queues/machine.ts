import { lifecycle } from "../../../events/lifecycle.ts";
import { annotationItems } from "./table.ts";

/** `appending`: the annotators are done, and the row of the item is not in its dataset yet. */
// biome-ignore format: a table should look like one
export const machine = lifecycle({
  table: annotationItems,
  initial: "pending",
  terminal: ["completed"],
  report: (row) => ({
    object: "annotation_item" as const,
    id: row.id,
    queue_id: row.queueId,
    status: row.status,
    preferred: row.outcome?.preferred ?? null,
    dataset_id: row.datasetId,
    dataset_row_id: row.datasetRowId,
  }),
  workspaceOf: (row) => row.workspaceId,
  steps: {
    // action     from                      to           event
    complete:  [["pending", "skipped"],   "completed", "annotation_item.completed"],
    append:    [["pending", "skipped"],   "appending", null],
    appended:  [["appending"],            "completed", "annotation_item.completed"],
    abandon:   [["appending"],            "completed", "annotation_item.completed"],
    skip:      [["pending"],              "skipped",   "annotation_item.skipped"],
  },
});
