import type { Tx } from "../../platform/db.ts";

/** A stretch of time in which a deployment held its hardware. Stretches of one deployment never overlap. */
export type DeploymentUsage = {
  workspaceId: string;
  deploymentId: string;
  from: number;
  to: number;
  ratePerHourMicros: number | null;
  replicas: number;
  /** The last stretch of this run. */
  final: boolean;
};

const HOUR_MS = 3_600_000;

/** What the stretch cost, in micro-dollars, to be added to the deployment in the same commit. No rate: free. */
export function chargeDeployment(_tx: Tx, usage: DeploymentUsage): number {
  const hours = Math.max(0, usage.to - usage.from) / HOUR_MS;
  return Math.round((usage.ratePerHourMicros ?? 0) * usage.replicas * hours);
}
