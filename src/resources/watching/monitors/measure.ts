/** Measures a monitor's metric in its window. Reads only, and waits for nothing. */
import { and, between, count, desc, eq, gte, isNotNull, lt, ne, or, sql, sum } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { usdOf } from "../../../lib/money.ts";
import { CLIENT_LEFT_STATUS } from "../../../lib/net/client_left.ts";
import { percentile } from "../../../lib/rewards/combine.ts";
import { freeBytes } from "../../../platform/machine/disk.ts";
import * as gpu from "../../machines/gpu/service.ts";
import * as billing from "../../money/billing/service.ts";
import { ledgerEntries } from "../../money/billing/table.ts";
import { ks, psi } from "../../quality/statistics/drift.ts";
import { deploymentRequests as requests } from "../../serving/deployments/table.ts";
import { trainingMetrics } from "../../training/training_jobs/table.ts";
import { traceScores as scores, traces } from "../traces/table.ts";
import { webhookAttempts, webhookDeliveries } from "../webhooks/table.ts";
import type { Metric } from "./metrics.ts";
import type { Measurement } from "./policy.ts";
import type { MonitorRow } from "./table.ts";

/** More observations than this are not read: the newest ones count. */
const MOST_VALUES = 50_000;

type Measured = Omit<Measurement, "at">;
/** The window: `since` counts, `until` too. */
type Measuring = { ctx: Ctx; row: MonitorRow; now: number; since: number; until: number };

/** Call `prepareDevices` before, so that figures of devices are fresh. */
export const measure = (ctx: Ctx, row: MonitorRow): Measurement =>
  measureAt(ctx, row, ctx.clock.now(), Number.MAX_SAFE_INTEGER); // also what a clock that was set back left ahead

/** The value that the metric had then. A gauge has only a value of now: `isGauge`. */
export const measureAt = (ctx: Ctx, row: MonitorRow, now: number, until = now): Measurement => ({
  at: now,
  ...MEASURES[row.metric]({ ctx, row, now, since: now - row.windowMs, until }),
});

const OF_DEVICES: ReadonlySet<Metric> = new Set<Metric>(["gpu_memory", "gpu_temperature"]);

/** Asks the driver only if a monitor needs it. */
export async function prepareDevices(ctx: Ctx, rows: readonly Pick<MonitorRow, "metric">[]) {
  if (rows.some(({ metric }) => OF_DEVICES.has(metric))) await gpu.devices(ctx);
}

const MEASURES: Record<Metric, (from: Measuring) => Measured> = {
  latency_p50: (from) => latency(from, 0.5),
  latency_p95: (from) => latency(from, 0.95),
  error_rate: errorRate,
  tokens,
  score_mean: scoreMean,
  score_psi: (from) => drift(from, psi),
  score_ks: (from) => drift(from, ks),
  reward,
  gpu_memory: (from) => highest(from, ({ usedBytes, totalBytes }) => (totalBytes > 0 ? usedBytes / totalBytes : null)),
  gpu_temperature: (from) => highest(from, ({ temperatureCelsius }) => temperatureCelsius),
  disk_free: ({ ctx }) => always(freeBytes(ctx.config.data_dir)),
  cost,
  balance: ({ ctx, row }) => always(usdOf(billing.leftMicros(ctx, row.workspaceId))),
  webhook_failures: webhookFailures,
};

/** A value that exists even if nothing happened. */
const always = (value: number): Measured => ({ value, samples: null });

const mean = (values: readonly number[]) =>
  values.length === 0 ? null : values.reduce((total, value) => total + value, 0) / values.length;

/** Requests of the window. A client that left is no failure, and its time says nothing. */
const inWindow = ({ row, since, until }: Measuring) =>
  and(
    row.deploymentId === null ? eq(requests.workspaceId, row.workspaceId) : eq(requests.deploymentId, row.deploymentId),
    between(requests.createdAt, since, until),
    ne(requests.statusCode, CLIENT_LEFT_STATUS),
  );

/** Only requests that succeeded count: errors are often fast. */
function latency(from: Measuring, share: number): Measured {
  const values = from.ctx.db
    .select({ ms: requests.latencyMs })
    .from(requests)
    .where(and(inWindow(from), lt(requests.statusCode, 400)))
    .orderBy(desc(requests.createdAt))
    .limit(MOST_VALUES)
    .all()
    .map(({ ms }) => ms)
    .sort((a, b) => a - b);
  return { value: percentile(values, share), samples: values.length };
}

function errorRate(from: Measuring): Measured {
  const { db } = from.ctx;
  const newest = db
    .select({ status: requests.statusCode })
    .from(requests)
    .where(inWindow(from))
    .orderBy(desc(requests.createdAt))
    .limit(MOST_VALUES)
    .as("newest");
  const failed = sum(sql`${newest.status} >= 400`).mapWith(Number);
  const counts = db.select({ all: count(), failed }).from(newest).get();
  const all = counts?.all ?? 0;
  return { value: all === 0 ? null : (counts?.failed ?? 0) / all, samples: all };
}

/** A sum needs every request of the window. */
function tokens(from: Measuring): Measured {
  const all = sum(sql`${requests.promptTokens} + ${requests.completionTokens}`).mapWith(Number);
  return always(from.ctx.db.select({ all }).from(requests).where(inWindow(from)).get()?.all ?? 0);
}

function scoresOf({ ctx, row }: Measuring, since: number, until: number): number[] {
  const { workspaceId, deploymentId, score } = row;
  const query = { workspaceId, deploymentId, name: score ?? "", since, until, limit: MOST_VALUES };
  return scoresBetween(ctx, query);
}

function scoreMean(from: Measuring): Measured {
  const values = scoresOf(from, from.since, from.now + 1);
  return { value: mean(values), samples: values.length };
}

function drift(from: Measuring, distance: typeof psi): Measured {
  const current = scoresOf(from, from.since, from.now + 1);
  const reference = scoresOf(from, from.since - from.row.referenceMs, from.since);
  return { value: distance(current, reference), samples: Math.min(current.length, reference.length) };
}

function reward({ ctx, row, since, until }: Measuring): Measured {
  const values = ctx.db
    .select({ reward: sql<number | null>`json_extract(${trainingMetrics.values}, '$.reward')` })
    .from(trainingMetrics)
    .where(and(eq(trainingMetrics.jobId, row.jobId ?? ""), between(trainingMetrics.time, since, until)))
    .orderBy(desc(trainingMetrics.step))
    .limit(MOST_VALUES)
    .all()
    .flatMap((each) => (typeof each.reward === "number" ? [each.reward] : []));
  return { value: mean(values), samples: values.length };
}

type Device = ReturnType<typeof gpu.known>[number];

function highest({ ctx, row }: Measuring, figureOf: (device: Device) => number | null): Measured {
  const values = gpu
    .known(ctx)
    .filter(({ id }) => row.device === null || id === row.device)
    .flatMap((device) => figureOf(device) ?? []);
  return values.length === 0 ? { value: null, samples: 0 } : always(Math.max(...values));
}

function cost({ ctx, row, since, until }: Measuring): Measured {
  const { workspaceId, kind, createdAt, amountMicros } = ledgerEntries;
  const charged = ctx.db
    .select({ micros: sum(amountMicros).mapWith(Number) })
    .from(ledgerEntries)
    .where(and(eq(workspaceId, row.workspaceId), between(createdAt, since, until), eq(kind, "charge")))
    .get();
  return always(usdOf(0 - (charged?.micros ?? 0)));
}

/** The condition is that of the index webhook_attempts_failed. */
const hasFailed = or(sql`${webhookAttempts.responseCode} IS NULL`, sql`${webhookAttempts.responseCode} >= 300`);

function webhookFailures({ ctx, row, since, until }: Measuring): Measured {
  const counted = ctx.db
    .select({ failed: count() })
    .from(webhookAttempts)
    .innerJoin(webhookDeliveries, eq(webhookDeliveries.id, webhookAttempts.deliveryId))
    .where(
      and(
        hasFailed,
        between(webhookAttempts.attemptedAt, since, until),
        eq(webhookDeliveries.workspaceId, row.workspaceId),
        row.endpointId === null ? undefined : eq(webhookDeliveries.endpointId, row.endpointId),
      ),
    )
    .get();
  return always(counted?.failed ?? 0);
}

/** `since` counts, `until` does not. `deploymentId`: null for all deployments of the workspace. */
type ScoreQuery = {
  workspaceId: string;
  deploymentId: string | null;
  name: string;
  since: number;
  until: number;
  /** The newest ones, at most this many. */
  limit: number;
};
/** Scores of traces, by the time at which they were given. Booleans count as 0 and 1. Categories and texts have no value. */
function scoresBetween({ db }: Pick<Ctx, "db">, query: ScoreQuery): number[] {
  const { workspaceId, deploymentId, name, since, until, limit } = query;
  return db
    .select({ value: scores.value })
    .from(scores)
    .innerJoin(traces, eq(traces.id, scores.traceId))
    .where(
      and(
        eq(scores.workspaceId, workspaceId),
        eq(scores.name, name),
        gte(scores.createdAt, since),
        lt(scores.createdAt, until),
        isNotNull(scores.value),
        deploymentId === null ? undefined : eq(traces.deploymentId, deploymentId),
      ),
    )
    .orderBy(desc(scores.createdAt))
    .limit(limit)
    .all()
    .map(({ value }) => value as number);
}
