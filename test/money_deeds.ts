/** Actions on jobs and deployments for `money_world.ts`. Some are not allowed in the present state. */
import type { Ctx } from "../src/context.ts";
import { newId } from "../src/lib/ids.ts";
import { write } from "../src/platform/db/db.ts";
import * as deploying from "../src/resources/serving/deployments/fleet/moves.ts";
import type { DeploymentRow } from "../src/resources/serving/deployments/table.ts";
import { UNREPORTED_END } from "../src/resources/training/training_jobs/policy.ts";
import * as jobs from "../src/resources/training/training_jobs/service.ts";
import * as training from "../src/resources/training/training_jobs/state/moves.ts";
import { recordStep } from "../src/resources/training/training_jobs/state/progress.ts";
import { currentJob } from "../src/resources/training/training_jobs/state/rows.ts";

/** Micro-dollars for an hour: free, less than one in a minute, usual, high, and odd. */
export const RATES = [null, 7, 58_000, 36_000_000, 999_999_937];
const TOLD = { type: "step" as const, epoch: 0, values: {}, eta_ms: null, samples: [], alarms: [] };
const FAULT = { code: "timeout", message: "x", param: null } as const;

/** `ends`: the open run ends; `surely`: in any state. `begins`: a run begins. `counts`: replicas from here on. */
export type Deed = {
  does: (ctx: Ctx, id: string) => unknown;
  ends?: true;
  surely?: true;
  begins?: true;
  /** The time up to here is kept, should the process die. */
  meters?: true;
  counts?: number;
};
export type Dice = { below: (limit: number) => number; pick: <T>(of: readonly T[]) => T };
type Moment = { workspaceId: string; isOpen: boolean; dice: Dice };

export function jobDeed(status: string, { workspaceId, isOpen, dice }: Moment): Deed {
  const told = { ...TOLD, step: 1 + dice.below(9) };
  const deeds: Deed[] = [
    { does: (ctx, id) => training.markRunning(ctx, id, { device: "cpu", memoryBytes: 1 }) },
    { does: (ctx, id) => training.markRunning(ctx, id, { device: "cpu", memoryBytes: 1 }) },
    { does: (ctx, id) => recordStep(ctx, id, told), meters: true },
    { does: (ctx, id) => jobs.pause(ctx, workspaceId, id) },
    { does: (ctx, id) => jobs.pause(ctx, workspaceId, id) },
    { does: (ctx, id) => jobs.resume(ctx, { workspaceId, keyId: null }, id) },
    { does: (ctx, id) => jobs.cancel(ctx, workspaceId, id) },
    { does: (ctx, id) => training.fail(ctx, id, FAULT), ends: true },
    { does: (ctx, id) => training.finishCancel(ctx, id), ends: true },
    { does: (ctx, id) => training.conclude(ctx, id, UNREPORTED_END), ends: true, surely: true },
    { does: (ctx, id) => training.conclude(ctx, id, { ...UNREPORTED_END, saved: true }), ends: true, surely: true },
    {
      does: (ctx, id) => write(ctx.db, (tx) => void training.complete(ctx, tx, currentJob(tx, id)!)),
      ends: true,
    },
  ];
  const place: Deed = {
    does: (ctx, id) => training.provision(ctx, currentJob(ctx.db, id)!, undefined),
    begins: true,
  };
  const isWaiting = status === "queued" && !isOpen; // one process for a job
  return isWaiting && dice.below(3) > 0 ? place : dice.pick(deeds);
}

export function deploymentDeed(status: string, { dice }: Moment): Deed {
  const rate = dice.pick(RATES);
  const counts = 1 + dice.below(4);
  const serve: Deed = { does: (ctx, id) => deploying.serve(ctx, id), begins: true };
  const start: Deed = { does: (ctx, id) => deploying.move(ctx, id, "start", { costPerHourMicros: rate }) };
  const place: Deed = { does: (ctx, id) => deploying.move(ctx, id, "place") };
  const onward: Record<string, Deed> = {
    queued: place,
    stopped: start,
    failed: start,
    provisioning: serve,
    unhealthy: serve,
  };
  const moves = ["wake", "restart", "stop", "fail", "sicken", "doze"] as const;
  const deeds: Deed[] = [
    ...moves.map((action): Deed => ({ does: (ctx, id) => deploying.move(ctx, id, action), ends: true })),
    { does: (ctx, id) => deploying.park(ctx, id), ends: true },
    {
      does: (ctx, id) => deploying.lose(ctx, id, { error: "x", code: "worker_failed", canRetry: dice.below(2) === 0 }),
      ends: true,
    },
    { does: (ctx, id) => deploying.keepAccount(ctx, deploying.current(ctx.db, id)!, counts), counts },
    { does: (ctx, id) => deploying.keepAccount(ctx, deploying.current(ctx.db, id)!, counts), counts },
    serve,
    start,
    place,
  ];
  const next = onward[status];
  return next && dice.below(3) > 0 ? next : dice.pick(deeds);
}

type Blank = Omit<DeploymentRow, "id" | "workspaceId" | "costPerHourMicros" | "createdAt" | "updatedAt">;
const BLANK: Blank = {
  name: "d",
  status: "queued",
  model: "m",
  modelId: null,
  source: "hub",
  checkpoint: null,
  gpuType: "cpu",
  nextModel: null,
  previousModel: null,
  internal: false,
  gpuCount: 1,
  provider: "local",
  region: "local",
  minReplicas: 0,
  maxReplicas: 4,
  idleTimeoutSeconds: 60,
  contextLength: null,
  parallel: null,
  kvType: null,
  wakeTimeoutSeconds: 60,
  maxHeldRequests: 1,
  pinned: false,
  parked: false,
  waking: false,
  attempts: 0,
  nextAttemptAt: null,
  error: null,
  errorCode: null,
  queueReason: null,
  totalCostMicros: 0,
  costRemainder: 0,
  chargedReplicas: 1,
  totalRequests: 0,
  totalErrors: 0,
  totalPromptTokens: 0,
  totalCompletionTokens: 0,
  totalLatencyMs: 0,
  uptimeMs: 0,
  upSince: null,
  billedUntil: null,
  startedAt: null,
  stoppedAt: null,
  lastRequestAt: null,
  metadata: {},
  apiKeyId: null,
  queueTimeoutSeconds: 900,
  capture: "none",
  captureRetentionDays: 30,
  captureRedact: [],
  queuedMs: 0,
};

export const deploymentRow = (now: number, workspaceId: string, costPerHourMicros: number | null): DeploymentRow => {
  const id = newId("dep", now);
  return { ...BLANK, id, name: id, workspaceId, costPerHourMicros, createdAt: now, updatedAt: now };
};
