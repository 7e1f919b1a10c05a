import { lifecycle } from "../../../events/lifecycle.ts";
import { report } from "./schema.ts";
import { rollouts } from "./table.ts";

/** A reward may come after the end: then an ended rollout is finished too. */
// biome-ignore format: a table should look like one
export const machine = lifecycle({
  table: rollouts,
  initial: "open",
  terminal: ["finished"],
  report,
  workspaceOf: (row) => row.workspaceId,
  steps: {
    // action  from                 to          event
    end:     [["open"],            "ended",    "rollout.ended"],
    finish:  [["open", "ended"],   "finished", "rollout.finished"],
  },
});
