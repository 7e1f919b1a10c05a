import type { EventPayload } from "../../../events/catalog.ts";
import { emit } from "../../../events/emit.ts";
import { lifecycle } from "../../../events/lifecycle.ts";
import type { Tx } from "../../../platform/db/db.ts";
import { type DeploymentRow, deployments } from "./table.ts";

export const report = ({ id, status, name }: DeploymentRow) => ({ object: "deployment" as const, id, status, name });

/**
 * Parked (scaled to zero) is `serving` with `parked`: the next request wakes the deployment. A wake that fails goes
 * back to parked without an event. Every other way into `serving` emits `deployment.serving` once.
 */
// biome-ignore format: a table should look like one
export const machine = lifecycle({
  table: deployments,
  initial: "queued",
  terminal: [],
  report,
  workspaceOf: (row) => row.workspaceId,
  isSilent: (row) => row.internal,
  steps: {
    // action    from                                                  to               event
    place:     [["queued"],                                          "provisioning",  null],
    serve:     [["provisioning", "unhealthy"],                       "serving",       "deployment.serving"],
    park:      [["serving"],                                         "serving",       "deployment.scaled_to_zero"],
    wake:      [["serving"],                                         "provisioning",  null],
    doze:      [["provisioning"],                                    "serving",       null], // the wake failed
    sicken:    [["serving"],                                         "unhealthy",     "deployment.unhealthy"],
    restart:   [["serving"],                                         "provisioning",  null], // the server was restarted
    fail:      [["queued", "provisioning", "serving", "unhealthy"],  "failed",        "deployment.failed"],
    stop:      [["queued", "provisioning", "serving", "unhealthy"],  "stopped",       "deployment.stopped"],
    start:     [["stopped", "failed"],                               "queued",        null],
  },
});
export type Action = keyof typeof machine.steps;

type PlainEvent = "deployment.created" | "deployment.updated" | "deployment.deleted";
type SwitchEvent = "deployment.switched" | "deployment.switch_failed";

/** An event that is no change of status. `more`: its fields beside those of `report`. */
export function emitChange<T extends PlainEvent | SwitchEvent>(
  tx: Tx,
  type: T,
  { row, now }: { row: DeploymentRow; now: number },
  ...[more]: T extends SwitchEvent ? [Omit<EventPayload<T>, keyof EventPayload<PlainEvent>>] : []
) {
  if (row.internal) return;
  emit(tx, type, { workspaceId: row.workspaceId, now }, { ...report(row), ...more } as EventPayload<T>);
}
