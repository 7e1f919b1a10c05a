import { lifecycle } from "../../../events/lifecycle.ts";
import { inferenceBatches } from "./table.ts";

// biome-ignore format: a table should look like one
export const machine = lifecycle({
  table: inferenceBatches,
  initial: "validating",
  terminal: ["failed", "completed", "expired", "cancelled"],
  report: (row) => ({ id: row.id }) as never, // no step has an event
  workspaceOf: (row) => row.workspaceId,
  steps: {
    // action    from                                       to             event
    begin:     [["validating"],                            "in_progress", null],
    fail:      [["validating"],                            "failed",      null], // the input file has a fault
    finalize:  [["in_progress"],                           "finalizing",  null], // every item has ended
    complete:  [["finalizing"],                            "completed",   null],
    expire:    [["validating", "in_progress"],             "expired",     null],
    cancel:    [["validating", "in_progress"],             "cancelling",  null],
    stop:      [["cancelling"],                            "cancelled",   null],
  },
});
