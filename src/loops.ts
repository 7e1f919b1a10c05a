import type { Ctx } from "./context.ts";
import { prune } from "./events/consume.ts";
import { pruneIdempotencyKeys } from "./http/idempotency.ts";
import type { LoopSpec } from "./platform/loop.ts";
import { recordUses } from "./resources/api_keys/authenticate.ts";
import { prune as pruneAudit } from "./resources/audit/service.ts";
import { removeAbandoned } from "./resources/code_artifacts/upload.ts";
import { cutDue } from "./resources/datasets/stream/snapshots.ts";
import { sweep as sweepDatasets } from "./resources/datasets/stream/sweep.ts";
import { reconcile } from "./resources/deployments/fleet/reconcile.ts";
import { pruneRequests } from "./resources/deployments/service.ts";
import { runBatches } from "./resources/detection/batches/runner.ts";
import { prune as pruneDetections } from "./resources/detection/service.ts";
import * as energy from "./resources/energy/service.ts";
import * as metrics from "./resources/metrics/service.ts";
import { STORE, STORE_MS } from "./resources/metrics/store.ts";
import { scan } from "./resources/models/files/folder.ts";
import { hashNew } from "./resources/models/files/hash.ts";
import { pullAll } from "./resources/models/hub/pull.ts";
import { reconcile as reconcileSessions } from "./resources/sessions/reconcile.ts";
import { track } from "./resources/tracker/send.ts";
import { TRACK } from "./resources/tracker/service.ts";
import { reconcile as reconcileTrainingJobs } from "./resources/training_jobs/running/reconcile.ts";
import { sweep as sweepTrainingJobs } from "./resources/training_jobs/running/sweep.ts";
import { sweep as sweepVolumes } from "./resources/volumes/sweep.ts";
import { deliver } from "./resources/webhooks/delivery/deliver.ts";
import { fanOut } from "./resources/webhooks/delivery/fan_out.ts";
import { prune as pruneWebhooks } from "./resources/webhooks/delivery/prune.ts";
import { purge } from "./resources/workspaces/purge.ts";

const HOUR_MS = 3_600_000;
const STORAGE_GRACE_MS = 24 * HOUR_MS; // an upload may take this long between its bytes and its name

/** The table of background loops: name, schedule, tick. */
export const loops = (ctx: Ctx): LoopSpec[] => [
  { name: "api_keys.record_uses", schedule: { everyMs: 30_000 }, tick: () => recordUses(ctx) },
  { name: "workspaces.purge", schedule: { everyMs: 10_000 }, tick: () => purge(ctx) },
  { name: "models.scan", schedule: { everyMs: 60_000 }, tick: (signal) => scan(ctx, signal) },
  { name: "models.download", schedule: { everyMs: 5_000 }, tick: (signal) => pullAll(ctx, signal) },
  { name: "models.hash", schedule: { everyMs: 60_000 }, tick: (signal) => hashNew(ctx, signal) },
  { name: "datasets.snapshots", schedule: { everyMs: 5_000 }, tick: (signal) => cutDue(ctx, signal) },
  { name: "datasets.sweep", schedule: { everyMs: 3_600_000 }, tick: async () => void (await sweepDatasets(ctx)) },
  { name: "deployments.reconcile", schedule: { everyMs: 1_000 }, tick: () => reconcile(ctx) },
  { name: energy.SAMPLE, schedule: { everyMs: 5_000 }, tick: () => energy.sample(ctx) },
  { name: STORE, schedule: { everyMs: STORE_MS }, tick: () => metrics.tick(ctx) },
  { name: "sessions.reconcile", schedule: { everyMs: 2_000 }, tick: () => reconcileSessions(ctx) },
  { name: TRACK, schedule: { everyMs: 2_000 }, tick: () => track(ctx) },
  { name: "training_jobs.reconcile", schedule: { everyMs: 1_000 }, tick: () => reconcileTrainingJobs(ctx) },
  { name: "training_jobs.sweep", schedule: { everyMs: 3_600_000 }, tick: (signal) => sweepTrainingJobs(ctx, signal) },
  { name: "volumes.sweep", schedule: { everyMs: 60_000 }, tick: (signal) => sweepVolumes(ctx, signal) },
  { name: "detection.batches", schedule: { everyMs: 1_000 }, tick: (signal) => runBatches(ctx, signal) },
  { name: "detection.prune", schedule: "7 4 * * *", tick: () => pruneDetections(ctx) },
  { name: "webhooks.fan_out", schedule: { everyMs: 1_000 }, tick: (signal) => fanOut(ctx, signal) },
  { name: "webhooks.deliver", schedule: { everyMs: 500 }, tick: (signal) => deliver(ctx, signal) },
  { name: "webhooks.prune", schedule: "57 3 * * *", tick: () => pruneWebhooks(ctx) },
  { name: "audit.prune", schedule: "7 4 * * *", tick: () => pruneAudit(ctx) },
  { name: "code_artifacts.sweep", schedule: "47 * * * *", tick: () => removeAbandoned(ctx) },
  {
    name: "deployments.prune_requests",
    schedule: "27 3 * * *",
    tick: async () =>
      void (await pruneRequests(ctx, ctx.clock.now() - ctx.config.serving.request_retention_days * 24 * HOUR_MS)),
  },
  {
    name: "events.prune",
    schedule: "17 3 * * *",
    tick: async () => void (await prune(ctx.db, ctx.clock.now() - ctx.config.events.retention_days * 24 * HOUR_MS)),
  },
  {
    name: "idempotency.prune",
    schedule: "7 * * * *",
    tick: async () =>
      void (await pruneIdempotencyKeys(ctx.db, ctx.clock.now() - ctx.config.http.idempotency_hours * HOUR_MS)),
  },
  { name: "storage.sweep", schedule: "37 3 * * *", tick: async () => void (await ctx.storage.sweep(STORAGE_GRACE_MS)) },
];
