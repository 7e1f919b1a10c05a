import { lifecycle } from "../../../events/lifecycle.ts";
import { present } from "./schema.ts";
import { workspaces } from "./table.ts";

// biome-ignore format: a table should look like one
export const machine = lifecycle({
  table: workspaces,
  initial: "active",
  terminal: ["deleted"],
  report: present,
  workspaceOf: (row) => row.id,
  steps: {
    // action    from                       to            event
    suspend:  [["active"],                "suspended",  "workspace.suspended"],
    resume:   [["suspended"],             "active",     "workspace.resumed"],
    remove:   [["active", "suspended"],   "deleted",    "workspace.deleted"], // its keys stop working; its name is free again
  },
});
