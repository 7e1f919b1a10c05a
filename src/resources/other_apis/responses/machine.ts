import { lifecycle } from "../../../events/lifecycle.ts";
import { responses } from "./table.ts";

/** Only background responses change. Others are stored when they have ended. No step has an event. */
// biome-ignore format: a table should look like one
export const machine = lifecycle({
  table: responses,
  initial: "queued",
  terminal: ["completed", "incomplete", "failed", "cancelled"],
  report: (row) => ({ id: row.id }) as never,
  workspaceOf: (row) => row.workspaceId,
  steps: {
    // action    from                        to             event
    begin:     [["queued"],                 "in_progress", null],
    complete:  [["queued", "in_progress"],  "completed",   null],
    cut:       [["queued", "in_progress"],  "incomplete",  null],
    fail:      [["queued", "in_progress"],  "failed",      null],
    cancel:    [["queued", "in_progress"],  "cancelled",   null],
  },
});
