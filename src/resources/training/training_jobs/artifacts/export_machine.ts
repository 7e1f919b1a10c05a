import { lifecycle } from "../../../../events/lifecycle.ts";
import { trainingExports } from "../table.ts";

/** These steps emit no events: clients poll for the file. */
// biome-ignore format: a table should look like one
export const machine = lifecycle({
  table: trainingExports,
  initial: "preparing",
  terminal: [],
  report: ({ jobId }) => ({ object: "job" as const, id: jobId, status: "", model: null }),
  workspaceOf: (row) => row.workspaceId,
  steps: {
    // action   from              to           event
    make:     [["preparing"],   "ready",     null],
    fail:     [["preparing"],   "failed",    null],
    again:    [["failed", "ready"], "preparing", null], // requested again, or the content is lost
  },
});
