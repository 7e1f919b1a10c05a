/** Use that is not charged yet: of jobs since their run began, of deployments since their last charge. */
import { and, eq, isNotNull } from "drizzle-orm";
import type { Ctx } from "../../context.ts";
import { monthStart } from "../../lib/months.ts";
import { costOf } from "../../lib/pricing/charge.ts";
import { deployments } from "../deployments/table.ts";
import { trainingJobs } from "../training_jobs/table.ts";
import { runTime, type Timed } from "./run_time.ts";

type Metering = Timed & Pick<Ctx, "db">;

export type Meter = {
  id: string;
  /** The key that started it. */
  keyId: string | null;
  gpuType: string;
  gpuCount: number;
  provider: string;
  /** For an hour of all its devices and replicas. */
  ratePerHourMicros: number;
  ms: number;
  micros: number;
  /** The part of `micros` that falls into this month of UTC. */
  monthMicros: number;
};

export function runningJobs(ctx: Metering, workspaceId: string): Meter[] {
  const { id, apiKeyId: keyId, gpuType, gpuCount, provider, rateMicros, runSince } = trainingJobs;
  const rows = ctx.db
    .select({ id, keyId, gpuType, gpuCount, provider, rateMicros, since: runSince })
    .from(trainingJobs)
    .where(and(eq(trainingJobs.workspaceId, workspaceId), isNotNull(runSince)))
    .all();
  return rows.map(({ rateMicros: rate, since, ...hardware }) => meterOf(ctx, hardware, rate, since));
}

export function servingDeployments(ctx: Metering, workspaceId: string): Meter[] {
  const { id, apiKeyId: keyId, gpuType, gpuCount, provider, costPerHourMicros, chargedReplicas, upSince } = deployments;
  const rows = ctx.db
    .select({ id, keyId, gpuType, gpuCount, provider, costPerHourMicros, chargedReplicas, since: upSince })
    .from(deployments)
    .where(and(eq(deployments.workspaceId, workspaceId), isNotNull(upSince)))
    .all();
  return rows.map(({ costPerHourMicros: rate, chargedReplicas: replicas, since, ...hardware }) =>
    meterOf(ctx, hardware, (rate ?? 0) * replicas, since),
  );
}

type Hardware = Pick<Meter, "id" | "keyId" | "gpuType" | "gpuCount" | "provider">;

function meterOf(ctx: Metering, hardware: Hardware, rate: number | null, since: number | null): Meter {
  const now = ctx.clock.now();
  const ms = since === null ? 0 : Math.max(0, runTime(ctx, hardware.id) - since);
  const monthMs = Math.min(ms, now - monthStart(now));
  return {
    ...hardware,
    ratePerHourMicros: rate ?? 0,
    ms,
    micros: costOf(rate, ms),
    monthMicros: costOf(rate, monthMs),
  };
}

export const metersOf = (ctx: Metering, workspaceId: string): Meter[] => [
  ...runningJobs(ctx, workspaceId),
  ...servingDeployments(ctx, workspaceId),
];

export const accruedMicros = (ctx: Metering, workspaceId: string): number =>
  metersOf(ctx, workspaceId).reduce((sum, { micros }) => sum + micros, 0);
