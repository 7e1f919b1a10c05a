/** Alarms of a monitor: from the change that left "fine" to the one that came back. Pure. */
import type { MonitorChange } from "../../../resources/watching/monitors/schema.ts";

export type Alarm = {
  id: string;
  /** The worst severity of the alarm. */
  severity: "alert" | "warning";
  /** Null: the change is older than the history that is loaded. */
  began: string | null;
  /** Null: it goes on. */
  ended: string | null;
  /** At the change to the worst severity. */
  value: number | null;
  /** `webhooks`: an event was emitted when it began. */
  sent: "webhooks" | "muted" | "no";
};

type Change = Pick<MonitorChange, "id" | "severity" | "previous_severity" | "value" | "muted" | "event" | "created_at">;
const isBad = (severity: MonitorChange["severity"]): severity is Alarm["severity"] =>
  severity === "alert" || severity === "warning";

/** `changes`: newest first, as the server lists them. The alarms are newest first too. */
export function alarmsOf(changes: readonly Change[]): Alarm[] {
  const alarms: Alarm[] = [];
  let open: Alarm | undefined;
  const oldest = changes.at(-1);
  if (oldest && isBad(oldest.previous_severity))
    open = { id: oldest.id, severity: oldest.previous_severity, began: null, ended: null, value: null, sent: "no" };
  for (const { id, severity, value, muted, event, created_at: at } of changes.toReversed()) {
    if (!isBad(severity)) {
      if (open) alarms.push({ ...open, ended: at });
      open = undefined;
    } else if (!open) {
      const sent = muted ? "muted" : event === null ? "no" : "webhooks";
      open = { id, severity, began: at, ended: null, value, sent };
    } else if (severity === "alert" && open.severity === "warning") open = { ...open, severity, value };
  }
  return (open ? [...alarms, open] : alarms).reverse();
}
