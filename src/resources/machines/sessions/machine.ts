import { lifecycle } from "../../../events/lifecycle.ts";
import { type SessionRow, sessions } from "./table.ts";

export const report = ({ id, name, status }: SessionRow) => ({ object: "session" as const, id, name, status });

// biome-ignore format: a table should look like one
export const machine = lifecycle({
  table: sessions,
  initial: "creating",
  terminal: ["stopped", "failed", "expired"],
  report,
  workspaceOf: (row) => row.workspaceId,
  steps: {
    // action   from                      to           event
    open:     [["creating"],            "ready",     "session.ready"],
    fail:     [["creating"],            "failed",    "session.failed"],
    stop:     [["creating", "ready"],   "stopping",  null], // its commands are being killed
    finish:   [["stopping"],            "stopped",   "session.stopped"],
    expire:   [["creating", "ready"],   "expired",   "session.expired"],
  },
});
