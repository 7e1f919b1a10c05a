/** Pure decisions about a deployment: how many replicas it should have, and what follows a loss. */
import { formatBytes } from "../../../lib/bytes.ts";
import type { DeploymentRow } from "./table.ts";

export type Traffic = {
  /** Requests that a replica answers or that wait for one. */
  inflight: number;
  /** Sequences that one replica decodes at once. */
  parallel: number;
  /** Time since the last request ended, or since the deployment began to serve. */
  idleMs: number;
  ready: number;
};

type Scaling = Pick<
  DeploymentRow,
  "status" | "parked" | "minReplicas" | "maxReplicas" | "idleTimeoutSeconds" | "pinned"
>;

/** The number that the traffic fills, within the bounds. It shrinks only after the idle timeout. */
export function desiredReplicas(row: Scaling, { inflight, parallel, idleMs, ready }: Traffic): number {
  if (row.parked || row.status === "stopped" || row.status === "failed") return 0;
  const floor = Math.max(1, row.minReplicas);
  const busy = Math.ceil(inflight / Math.max(1, parallel));
  const isIdle = idleMs >= row.idleTimeoutSeconds * 1000;
  const keep = isIdle ? floor : Math.min(ready, row.maxReplicas);
  return Math.min(Math.max(floor, busy, keep), Math.max(floor, row.maxReplicas));
}

/** True for a deployment that may scale to zero, is not pinned and was idle for its whole timeout. */
export const mayPark = (row: Scaling, { inflight, idleMs }: Pick<Traffic, "inflight" | "idleMs">): boolean =>
  isParkable(row) && inflight === 0 && idleMs >= row.idleTimeoutSeconds * 1000;

/** True if it may be parked before its idle timeout, to make room for another. */
export const isParkable = (row: Scaling): boolean =>
  row.status === "serving" && !row.parked && row.minReplicas === 0 && !row.pinned;

/** True if a parked deployment must have replicas again. */
export const keepsFloor = (row: Pick<Scaling, "minReplicas">): boolean => row.minReplicas > 0;

const LONGEST_DELAY_MS = 300_000;

/** The pause before restart number `attempt` (from 1). It doubles with each attempt, up to five minutes. */
export const restartDelayMs = (attempt: number, firstMs: number): number =>
  Math.min(firstMs * 2 ** Math.max(0, attempt - 1), LONGEST_DELAY_MS);

/** A time further ahead than the longest pause was set by a clock that was wrong: the restart is due now. */
export const isRestartDue = (at: number | null, now: number): boolean =>
  at === null || at <= now || at - now > LONGEST_DELAY_MS;

export type Loss = { status: DeploymentRow["status"]; waking: boolean; attempts: number };
export type Verdict = "doze" | "sicken" | "retry" | "fail";

/** The next step of a deployment that has lost its last replica. A failed wake is not terminal. */
export function judgeLoss(row: Loss, canRetry: boolean, most: number): Verdict {
  if (row.status === "provisioning" && row.waking) return "doze";
  if (!canRetry || row.attempts >= most) return "fail";
  return row.status === "serving" ? "sicken" : "retry";
}

/** True if a deployment has waited for memory longer than it may. `timeoutSeconds` 0: it may wait for ever. */
export const hasWaitedTooLong = (queuedMs: number, timeoutSeconds: number): boolean =>
  timeoutSeconds > 0 && queuedMs >= timeoutSeconds * 1000;

/** A load that takes longer is hung: ten minutes, plus the time of a slow disk (50 MB/s). */
export const loadDeadlineMs = (weightBytes: number): number => 600_000 + (weightBytes / 50e6) * 1000;

export type Hardware = readonly { type: string; capacityBytes: number }[];

/** The reason why this can never run here, even on an idle machine; undefined: it can. */
export function whyNever(hardware: Hardware, want: { type: string; count: number; bytes: number }): string | undefined {
  const capacities = hardware.filter(({ type }) => type === want.type).map(({ capacityBytes }) => capacityBytes);
  if (capacities.length < want.count)
    return `this machine has ${capacities.length} of type ${want.type}, not ${want.count}`;
  const smallest = capacities.sort((a, b) => b - a)[want.count - 1] ?? 0; // of the largest `count`
  const each = Math.ceil(want.bytes / want.count);
  if (each <= smallest) return undefined;
  return `it needs ${formatBytes(each)} on each device, and a device has ${formatBytes(smallest)}: lower context_length or parallel`;
}

/** After this time in service, earlier crashes no longer count. */
export const FORGIVEN_AFTER_MS = 60_000;
