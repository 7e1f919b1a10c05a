import { lifecycle } from "../../../events/lifecycle.ts";
import { uploads } from "./table.ts";

// biome-ignore format: a table should look like one
export const machine = lifecycle({
  table: uploads,
  initial: "open",
  terminal: ["used", "expired", "aborted"],
  report: () => {
    throw new Error("an upload emits no events: the file that it creates does");
  },
  workspaceOf: (row) => row.workspaceId,
  steps: {
    // action   from                    to           event
    claim:   [["open"],               "receiving", null], // by one request at a time
    release: [["receiving"],          "open",      null], // the request failed: another may try
    use:     [["receiving"],          "used",      null],
    expire:  [["open"],               "expired",   null],
    abort:   [["open", "receiving"],  "aborted",   null], // a file that is being received is dropped
  },
});
