/** Use that is not charged yet: of jobs since their run began, of deployments and machines since their last charge. */
import { and, eq, gte, isNotNull, isNull } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { machines } from "../../machines/clouds/table.ts";
import { isCloud } from "../../machines/regions/table.ts";
import { deployments } from "../../serving/deployments/table.ts";
import { trainingJobs } from "../../training/training_jobs/table.ts";
import { costOf } from "../cost/charge.ts";
import { monthStart } from "./months.ts";
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
  /** Not charged yet. */
  ms: number;
  micros: number;
  /** `ms` × devices × replicas. */
  deviceMs: number;
  /** All use since the first start, charged or not. */
  total: { ms: number; micros: number };
  /** The part of `micros` that falls into this month of UTC. */
  monthMicros: number;
};

export function runningJobs(ctx: Metering, workspaceId: string): Meter[] {
  const { id, apiKeyId: keyId, gpuType, gpuCount, provider, rateMicros, runSince, runMs, costMicros } = trainingJobs;
  const rows = ctx.db
    .select({ id, keyId, gpuType, gpuCount, provider, rate: rateMicros, since: runSince, runMs, costMicros })
    .from(trainingJobs)
    .where(and(eq(trainingJobs.workspaceId, workspaceId), gte(runSince, 0))) // the range of training_jobs_at_work
    .all();
  return rows.map(({ rate, since, runMs: ms, costMicros: micros, ...hardware }) =>
    meterOf(ctx, hardware, { rate: ownRate(hardware, rate), replicas: 1, since, charged: { ms, micros } }),
  );
}

/** Work on a machine of a cloud costs nothing beside the machine. */
const ownRate = ({ provider }: Hardware, rate: number | null) => (isCloud(provider) ? null : rate);

export function liveMachines(ctx: Metering, workspaceId: string): Meter[] {
  const { id, apiKeyId: keyId, gpuType, gpuCount, cloud: provider, rateMicros: rate, upSince: since } = machines;
  const { uptimeMs: ms, costMicros: micros } = machines;
  const rows = ctx.db
    .select({ id, keyId, gpuType, gpuCount, provider, rate, since, ms, micros })
    .from(machines)
    .where(and(eq(machines.workspaceId, workspaceId), isNull(machines.endedAt), isNotNull(since)))
    .all();
  return rows.map(({ rate, since, ms, micros, ...hardware }) =>
    meterOf(ctx, hardware, { rate, replicas: 1, since, charged: { ms, micros } }),
  );
}

export function servingDeployments(ctx: Metering, workspaceId: string): Meter[] {
  const { id, apiKeyId: keyId, gpuType, gpuCount, provider, costPerHourMicros, chargedReplicas, upSince } = deployments;
  const { uptimeMs: ms, totalCostMicros: micros } = deployments;
  const rows = ctx.db
    .select({
      id,
      keyId,
      gpuType,
      gpuCount,
      provider,
      ms,
      micros,
      rate: costPerHourMicros,
      replicas: chargedReplicas,
      since: upSince,
    })
    .from(deployments)
    .where(and(eq(deployments.workspaceId, workspaceId), isNotNull(upSince)))
    .all();
  return rows.map(({ rate, replicas, since, ms, micros, ...hardware }) =>
    meterOf(ctx, hardware, { rate: ownRate(hardware, rate), replicas, since, charged: { ms, micros } }),
  );
}

type Hardware = Pick<Meter, "id" | "keyId" | "gpuType" | "gpuCount" | "provider">;
/** `rate`: micro-dollars for an hour of one replica. `charged`: the use before `since`. */
type Account = {
  rate: number | null;
  replicas: number;
  since: number | null;
  charged: { ms: number; micros: number };
};

function meterOf(ctx: Metering, hardware: Hardware, { rate, replicas, since, charged }: Account): Meter {
  const now = ctx.clock.now();
  const ms = since === null ? 0 : Math.max(0, runTime(ctx, hardware.id) - since);
  const monthMs = Math.min(ms, now - monthStart(now));
  const ratePerHourMicros = (rate ?? 0) * replicas;
  const micros = costOf(ratePerHourMicros, ms);
  return {
    ...hardware,
    ratePerHourMicros,
    ms,
    micros,
    deviceMs: ms * hardware.gpuCount * replicas,
    total: { ms: charged.ms + ms, micros: charged.micros + micros },
    monthMicros: costOf(ratePerHourMicros, monthMs),
  };
}

export const metersOf = (ctx: Metering, workspaceId: string): Meter[] => [
  ...runningJobs(ctx, workspaceId),
  ...servingDeployments(ctx, workspaceId),
  ...liveMachines(ctx, workspaceId),
];

export const accruedMicros = (ctx: Metering, workspaceId: string): number =>
  metersOf(ctx, workspaceId).reduce((sum, { micros }) => sum + micros, 0);
