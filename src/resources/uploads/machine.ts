import { lifecycle } from "../../events/lifecycle.ts";
import { uploads } from "./table.ts";

// biome-ignore format: a table should look like one
export const machine = lifecycle({
  table: uploads,
  initial: "open",
  terminal: ["used", "expired", "aborted"],
  report: () => {
    throw new Error("no step of an upload is told: what it leads to is");
  },
  workspaceOf: (row) => row.workspaceId,
  steps: {
    // action   from                    to           event
    claim:   [["open"],               "receiving", null], // by one request; nobody else can
    release: [["receiving"],          "open",      null], // it came to nothing: another may try
    use:     [["receiving"],          "used",      null],
    expire:  [["open"],               "expired",   null],
    abort:   [["open", "receiving"],  "aborted",   null], // what is being received comes too late
  },
});
