import { lifecycle } from "../../../events/lifecycle.ts";
import { type MachineRow, machines } from "./table.ts";

export const report = ({ id, name, cloud, status, regionId, fault }: MachineRow) => ({
  object: "machine" as const,
  id,
  name,
  cloud,
  status,
  region: regionId,
  reason: fault,
});

/** The lease file of a machine is written before `starting` calls `up`, and removed after `ended`. */
// biome-ignore format: a table should look like one
export const machine = lifecycle({
  table: machines,
  initial: "starting",
  terminal: ["ended"],
  report,
  workspaceOf: (row) => row.workspaceId,
  steps: {
    // action   from                      to         event
    ready:    [["starting"],            "ready",   "machine.ready"],
    end:      [["starting", "ready"],   "ending",  "machine.ending"], // `down` is called until it succeeds
    finish:   [["ending"],              "ended",   "machine.ended"],
  },
});
export type Action = keyof typeof machine.steps;
