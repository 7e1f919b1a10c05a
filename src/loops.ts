/** The table of background loops: their work. `schedules.ts` has their names and times. */
import type { Ctx } from "./context.ts";
import { prune as pruneEvents } from "./events/consume.ts";
import { pruneIdempotencyKeys } from "./http/idempotency.ts";
import { DAY_MS, HOUR_MS } from "./lib/units.ts";
import { backUpWhenDue, followChanges } from "./platform/backup/schedule.ts";
import type { LoopSpec } from "./platform/loop.ts";
import { verifyStorage } from "./platform/storage/verify.ts";
import { renewAcme } from "./platform/tls/renew_acme.ts";
import { purge } from "./purge.ts";
import { recordUses } from "./resources/access/api_keys/authenticate.ts";
import { prune as pruneKeys } from "./resources/access/api_keys/prune.ts";
import { prune as pruneAudit } from "./resources/access/audit/service.ts";
import { recordUses as recordSessionUses } from "./resources/access/browser_sessions/authenticate.ts";
import { prune as pruneBrowserSessions } from "./resources/access/browser_sessions/service.ts";
import { prune as pruneWorkspaces } from "./resources/access/workspaces/prune.ts";
import { cutDue } from "./resources/data/datasets/stream/snapshots.ts";
import { sweep as sweepDatasets } from "./resources/data/datasets/stream/sweep.ts";
import { sweep as sweepVolumes } from "./resources/data/volumes/sweep.ts";
import { runBatches } from "./resources/detection/batches/runner.ts";
import { prune as pruneDetections } from "./resources/detection/service.ts";
import { prune as pruneMachines, reconcile as reconcileClouds } from "./resources/machines/clouds/reconcile.ts";
import { observe as observeRegions } from "./resources/machines/regions/observe.ts";
import { reconcile as reconcileSessions } from "./resources/machines/sessions/reconcile.ts";
import { prune as pruneSessions } from "./resources/machines/sessions/service.ts";
import { mergeCharges } from "./resources/money/billing/merge.ts";
import * as energy from "./resources/money/energy/service.ts";
import { prune as pruneInferenceBatches } from "./resources/other_apis/batches/prune.ts";
import { runBatches as runInferenceBatches } from "./resources/other_apis/batches/runner.ts";
import { prune as pruneCompletions } from "./resources/other_apis/completions/service.ts";
import { prune as pruneConversations } from "./resources/other_apis/conversations/prune.ts";
import { prune as pruneFiles } from "./resources/other_apis/files/service.ts";
import { deployResults } from "./resources/other_apis/fine_tuning/deploy.ts";
import { runResponses } from "./resources/other_apis/responses/background.ts";
import { prune as pruneResponses } from "./resources/other_apis/responses/service.ts";
import { runIndexing } from "./resources/other_apis/vector_stores/index_files.ts";
import { prune as pruneVectorStores } from "./resources/other_apis/vector_stores/prune.ts";
import { appendLeft } from "./resources/quality/annotation_queues/append.ts";
import { prune as pruneAnnotations } from "./resources/quality/annotation_queues/service.ts";
import { runExperiments } from "./resources/quality/experiments/running/runner.ts";
import { sweep as sweepExperiments } from "./resources/quality/experiments/running/sweep.ts";
import { observe as observeClock } from "./resources/server/system/clock.ts";
import { reconcile as reconcileDeployments } from "./resources/serving/deployments/fleet/reconcile.ts";
import { sweep as sweepPrefixes } from "./resources/serving/deployments/prefixes/blocks.ts";
import { prune as pruneDeployments } from "./resources/serving/deployments/prune.ts";
import { scan } from "./resources/serving/models/files/folder.ts";
import { hashNew } from "./resources/serving/models/files/hash.ts";
import { pullAll } from "./resources/serving/models/hub/pull.ts";
import { startNextQuantizations } from "./resources/serving/models/registry/quantize.ts";
import { expire as expireRollouts } from "./resources/serving/rollouts/service.ts";
import { removeAbandoned } from "./resources/training/code_artifacts/upload.ts";
import { run as runPushes } from "./resources/training/hub_pushes/run.ts";
import { track } from "./resources/training/tracker/send.ts";
import { reconcileReadings } from "./resources/training/training_jobs/admission/reading.ts";
import { syncRemote } from "./resources/training/training_jobs/remote/sync.ts";
import { prune as pruneTrainingJobs } from "./resources/training/training_jobs/running/prune.ts";
import { reconcile as reconcileTrainingJobs } from "./resources/training/training_jobs/running/reconcile.ts";
import { sweep as sweepTrainingJobs } from "./resources/training/training_jobs/running/sweep.ts";
import { sampleSystem } from "./resources/training/training_jobs/running/system.ts";
import { push as pushMetrics } from "./resources/watching/metrics/push.ts";
import * as metrics from "./resources/watching/metrics/service.ts";
import { evaluateDue, pruneHistory } from "./resources/watching/monitors/evaluate.ts";
import { scoreTraffic } from "./resources/watching/monitors/online.ts";
import { prune as pruneTraces } from "./resources/watching/traces/prune.ts";
import { deliver } from "./resources/watching/webhooks/delivery/deliver.ts";
import { fanOut } from "./resources/watching/webhooks/delivery/fan_out.ts";
import { prune as pruneWebhooks } from "./resources/watching/webhooks/delivery/prune.ts";
import { type LoopName, SCHEDULES } from "./schedules.ts";

/**
 * They delete, expire or give up by age, so they take the time that cannot be ahead (see platform/trusted_clock.ts).
 */
const BY_AGE: ReadonlySet<LoopName> = new Set([
  "api_keys.prune",
  "audit.prune",
  "batches.prune",
  "batches.run",
  "browser_sessions.prune",
  "billing.merge",
  "clouds.prune",
  "code_artifacts.sweep",
  "conversations.prune",
  "datasets.sweep",
  "deployments.prefixes",
  "deployments.prune",
  "detection.prune",
  "events.prune",
  "files.prune",
  "idempotency.prune",
  "monitors.prune",
  "responses.prune",
  "rollouts.expire",
  "sessions.prune",
  "tracker.send",
  "traces.prune",
  "training_jobs.prune",
  "training_jobs.sweep",
  "vector_stores.prune",
  "volumes.sweep",
  "webhooks.deliver",
  "webhooks.prune",
  "workspaces.prune",
]);

const byTrustedTime = (ctx: Ctx): Ctx => ({
  ...ctx,
  clock: { ...ctx.clock, now: () => ctx.state.trustedClock.now() },
});

const STORAGE_GRACE_MS = DAY_MS; // an upload may take this long between its bytes and its name

const ticks: Record<LoopName, (ctx: Ctx, signal: AbortSignal) => unknown> = {
  "annotation_queues.append": appendLeft,
  "annotation_queues.prune": (ctx) => pruneAnnotations(ctx),
  "api_keys.prune": pruneKeys,
  "api_keys.record_uses": (ctx) => recordUses(ctx),
  "audit.prune": pruneAudit,
  "backup.create": backUpWhenDue,
  "backup.log": followChanges,
  "browser_sessions.prune": pruneBrowserSessions,
  "browser_sessions.record_uses": (ctx) => recordSessionUses(ctx),
  "batches.prune": (ctx) => pruneInferenceBatches(ctx, daysAgo(ctx, ctx.config.batches.retention_days)),
  "batches.run": runInferenceBatches,
  "billing.merge": mergeCharges,
  "clock.observe": (ctx) => observeClock(ctx),
  "clouds.prune": (ctx) => pruneMachines(ctx),
  "clouds.reconcile": (ctx) => reconcileClouds(ctx),
  "code_artifacts.sweep": removeAbandoned,
  "conversations.prune": (ctx) => {
    const { retention_days: days } = ctx.config.conversations;
    return pruneConversations(ctx, days === 0 ? undefined : daysAgo(ctx, days));
  },
  "datasets.snapshots": cutDue,
  "datasets.sweep": (ctx) => sweepDatasets(ctx),
  "deployments.prefixes": sweepPrefixes,
  "deployments.prune": pruneDeployments,
  "deployments.reconcile": reconcileDeployments,
  "detection.batches": runBatches,
  "detection.prune": (ctx) => pruneDetections(ctx),
  "energy.sample": (ctx) => energy.sample(ctx),
  "events.prune": (ctx) => pruneEvents(ctx.db, daysAgo(ctx, ctx.config.events.retention_days)),
  "experiments.run": runExperiments,
  "experiments.sweep": (ctx) => sweepExperiments(ctx),
  "files.prune": (ctx) => pruneFiles(ctx),
  "fine_tuning.deploy": deployResults,
  "http.renew_acme": renewAcme,
  "http.renew_tls": (ctx) => ctx.state.http.renewTls?.(),
  "hub_pushes.run": runPushes,
  "idempotency.prune": (ctx) =>
    pruneIdempotencyKeys(ctx.db, ctx.clock.now() - ctx.config.http.idempotency_hours * HOUR_MS),
  "metrics.push": pushMetrics,
  "metrics.store": (ctx) => metrics.tick(ctx),
  "models.download": pullAll,
  "models.hash": hashNew,
  "models.quantize": startNextQuantizations,
  "models.scan": scan,
  "monitors.evaluate": evaluateDue,
  "monitors.prune": (ctx) => pruneHistory(ctx),
  "monitors.score": scoreTraffic,
  "regions.observe": (ctx) => observeRegions(ctx),
  "responses.prune": async (ctx) => {
    const before = daysAgo(ctx, ctx.config.responses.retention_days);
    await pruneResponses(ctx, before);
    await pruneCompletions(ctx, before);
  },
  "responses.run": runResponses,
  "rollouts.expire": (ctx) => expireRollouts(ctx),
  "sessions.prune": (ctx) => pruneSessions(ctx, daysAgo(ctx, ctx.config.sessions.retention_days)),
  "sessions.reconcile": reconcileSessions,
  "storage.sweep": (ctx) => (ctx.state.trustedClock.isSuspect ? undefined : ctx.storage.sweep(STORAGE_GRACE_MS)),
  "storage.verify": verifyStorage,
  "tracker.send": (ctx) => track(ctx),
  "traces.prune": (ctx) => pruneTraces(ctx),
  "training_jobs.prune": pruneTrainingJobs,
  "training_jobs.reconcile": async (ctx) => {
    await reconcileReadings(ctx);
    return reconcileTrainingJobs(ctx);
  },
  "training_jobs.remote": (ctx) => syncRemote(ctx),
  "training_jobs.system": sampleSystem,
  "training_jobs.sweep": sweepTrainingJobs,
  "vector_stores.index": runIndexing,
  "vector_stores.prune": (ctx) => pruneVectorStores(ctx),
  "volumes.sweep": sweepVolumes,
  "webhooks.deliver": deliver,
  "webhooks.fan_out": fanOut,
  "webhooks.prune": (ctx) => pruneWebhooks(ctx),
  "workspaces.prune": pruneWorkspaces,
  "workspaces.purge": (ctx) => purge(ctx),
};

const daysAgo = ({ clock }: Ctx, days: number) => clock.now() - days * DAY_MS;

/** In the order in which they take their first turn. */
export const loops = (ctx: Ctx): (LoopSpec & { name: LoopName })[] =>
  (Object.keys(SCHEDULES) as LoopName[]).map((name) => ({
    name,
    schedule: SCHEDULES[name],
    tick: async (signal) => void (await ticks[name](BY_AGE.has(name) ? byTrustedTime(ctx) : ctx, signal)),
  }));
