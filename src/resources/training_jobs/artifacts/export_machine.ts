import { lifecycle } from "../../../events/lifecycle.ts";
import { trainingExports } from "../table.ts";

/** Nobody is told of these moves: whoever wants the file asks for it. */
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
    again:    [["failed", "ready"], "preparing", null], // asked for once more, or its content is gone
  },
});
