import { lifecycle } from "../../../events/lifecycle.ts";
import { vectorFiles } from "./table.ts";

/** No step has an event. */
// biome-ignore format: a table should look like one
export const machine = lifecycle({
  table: vectorFiles,
  initial: "in_progress",
  terminal: ["completed", "failed", "cancelled"],
  report: (row) => ({ id: row.id }) as never,
  workspaceOf: (row) => row.workspaceId,
  steps: {
    // action    from               to           event
    complete:  [["in_progress"],  "completed",  null],
    fail:      [["in_progress"],  "failed",     null],
    cancel:    [["in_progress"],  "cancelled",  null],
  },
});
