/** What a deployment should do next, as pure functions of what is known of it. */
import { formatBytes } from "../../lib/bytes.ts";
import type { DeploymentRow } from "./table.ts";

export type Traffic = {
  /** Requests that a replica works on or that wait for one. */
  inflight: number;
  /** Sequences that one replica decodes at once. */
  parallel: number;
  /** Since the last request ended, or since it began to serve. */
  idleMs: number;
  ready: number;
};

type Scaling = Pick<
  DeploymentRow,
  "status" | "parked" | "minReplicas" | "maxReplicas" | "idleTimeoutSeconds" | "pinned"
>;

/** As many as the traffic fills, within the bounds; never fewer than run while they are busy or were a moment ago. */
export function desiredReplicas(row: Scaling, { inflight, parallel, idleMs, ready }: Traffic): number {
  if (row.parked || row.status === "stopped" || row.status === "failed") return 0;
  const floor = Math.max(1, row.minReplicas);
  const busy = Math.ceil(inflight / Math.max(1, parallel));
  const resting = idleMs >= row.idleTimeoutSeconds * 1000;
  const keep = resting ? floor : Math.min(ready, row.maxReplicas);
  return Math.min(Math.max(floor, busy, keep), Math.max(floor, row.maxReplicas));
}

/** Idle for its whole timeout, allowed down to zero, and not pinned. */
export const mayPark = (row: Scaling, { inflight, idleMs }: Pick<Traffic, "inflight" | "idleMs">): boolean =>
  isParkable(row) && inflight === 0 && idleMs >= row.idleTimeoutSeconds * 1000;

/** Whether it may be parked before its time, to make room for another. */
export const isParkable = (row: Scaling): boolean =>
  row.status === "serving" && !row.parked && row.minReplicas === 0 && !row.pinned;

/** Before restart number `attempt` (from 1): the first pause, doubled with each, five minutes at most. */
export const restartDelayMs = (attempt: number, firstMs: number): number =>
  Math.min(firstMs * 2 ** Math.max(0, attempt - 1), 300_000);

export type Loss = { status: DeploymentRow["status"]; waking: boolean; attempts: number };
export type Verdict = "doze" | "sicken" | "retry" | "fail";

/** What becomes of a deployment whose last replica is gone. A failed wake is not terminal. */
export function judgeLoss(row: Loss, canRetry: boolean, most: number): Verdict {
  if (row.status === "provisioning" && row.waking) return "doze";
  if (!canRetry || row.attempts >= most) return "fail";
  return row.status === "serving" ? "sicken" : "retry";
}

/** A load that takes longer is hung: ten minutes, and more for what a slow disk (50 MB/s) needs to read it. */
export const loadDeadlineMs = (weightBytes: number): number => 600_000 + (weightBytes / 50e6) * 1000;

export type Hardware = readonly { type: string; capacityBytes: number }[];

/** Why this can never run here, however empty the machine is; undefined when it can. */
export function whyNever(hardware: Hardware, want: { type: string; count: number; bytes: number }): string | undefined {
  const rooms = hardware.filter(({ type }) => type === want.type).map(({ capacityBytes }) => capacityBytes);
  if (rooms.length < want.count) return `this machine has ${rooms.length} of type ${want.type}, not ${want.count}`;
  const smallest = rooms.sort((a, b) => b - a)[want.count - 1] ?? 0; // of the largest `count`
  const each = Math.ceil(want.bytes / want.count);
  if (each <= smallest) return undefined;
  return `it takes ${formatBytes(each)} on each, and there are ${formatBytes(smallest)}: ask for a smaller context_length or parallel`;
}

/** Stays up for this long: earlier crashes are forgiven. */
export const FORGIVEN_AFTER_MS = 60_000;
