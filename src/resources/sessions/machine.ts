import { lifecycle } from "../../events/lifecycle.ts";
import { sessions } from "./table.ts";

// biome-ignore format: a table should look like one
export const machine = lifecycle({
  table: sessions,
  initial: "creating",
  terminal: ["stopped", "failed", "expired"],
  report: ({ id, name, status }) => ({ object: "session" as const, id, name, status }),
  workspaceOf: (row) => row.workspaceId,
  steps: {
    // action   from                      to           event
    open:     [["creating"],            "ready",     "session.ready"],
    fail:     [["creating"],            "failed",    "session.failed"],
    stop:     [["creating", "ready"],   "stopping",  null], // its commands are being ended
    finish:   [["stopping"],            "stopped",   "session.stopped"],
    expire:   [["creating", "ready"],   "expired",   "session.expired"],
  },
});
