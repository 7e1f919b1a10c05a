/**
 * Makes everything that lives at run time beside the database, one field for each owner. An owner declares its field
 * beside its class (`interface State`). Made once for each server by `openContext`; it ends with the process. Making it
 * has no effects.
 */
import type { Ctx, State } from "./context.ts";
import { HttpState } from "./http/state.ts";
import { BackupState } from "./platform/backup/schedule.ts";
import { TrustedClock } from "./platform/trusted_clock.ts";
import { TurnsState } from "./platform/turn_report.ts";
import { ApiKeysState } from "./resources/access/api_keys/live.ts";
import { BrowserSessionsState } from "./resources/access/browser_sessions/live.ts";
import { PeopleState } from "./resources/access/people/live.ts";
import { DatasetsState } from "./resources/data/datasets/live.ts";
import { LooseKeysState } from "./resources/data/loose_keys/live.ts";
import { StorageUsageState } from "./resources/data/storage_usage/live.ts";
import { UploadsState } from "./resources/data/uploads/live.ts";
import { VolumesState } from "./resources/data/volumes/live.ts";
import { DetectionState } from "./resources/detection/live.ts";
import { CloudsState } from "./resources/machines/clouds/live.ts";
import { GpuState } from "./resources/machines/gpu/live.ts";
import { RegionsState } from "./resources/machines/regions/live.ts";
import { SessionsState } from "./resources/machines/sessions/live.ts";
import { BillingState } from "./resources/money/billing/run_time.ts";
import { EnergyState } from "./resources/money/energy/live.ts";
import { InferenceBatchesState } from "./resources/other_apis/batches/live.ts";
import { ResponsesState } from "./resources/other_apis/responses/live.ts";
import { VectorStoresState } from "./resources/other_apis/vector_stores/live.ts";
import { AnnotationQueuesState } from "./resources/quality/annotation_queues/live.ts";
import { ExperimentsState } from "./resources/quality/experiments/live.ts";
import { DashboardState } from "./resources/server/dashboard/live.ts";
import { ChecksState, ClockNote } from "./resources/server/system/live.ts";
import { DeploymentsState } from "./resources/serving/deployments/fleet/live.ts";
import { ModelsState } from "./resources/serving/models/live.ts";
import { RolloutsState } from "./resources/serving/rollouts/live.ts";
import { CodeArtifactsState } from "./resources/training/code_artifacts/live.ts";
import { HubPushesState } from "./resources/training/hub_pushes/live.ts";
import { RewardsState } from "./resources/training/reward_functions/live.ts";
import { TrackerState } from "./resources/training/tracker/live.ts";
import { TrainingJobsState } from "./resources/training/training_jobs/state/live.ts";
import { EventsState } from "./resources/watching/events/live.ts";
import { MetricsState } from "./resources/watching/metrics/live.ts";
import { TracesState } from "./resources/watching/traces/live.ts";
import { WebhooksState } from "./resources/watching/webhooks/delivery/live.ts";

export const newState = (ctx: Pick<Ctx, "config" | "clock">): State => ({
  http: new HttpState(ctx),
  trustedClock: new TrustedClock(ctx.clock),
  clockNote: new ClockNote(),
  checks: new ChecksState(),
  annotationQueues: new AnnotationQueuesState(),
  apiKeys: new ApiKeysState(),
  backup: new BackupState(),
  billing: new BillingState(),
  browserSessions: new BrowserSessionsState(),
  clouds: new CloudsState(),
  codeArtifacts: new CodeArtifactsState(),
  dashboard: new DashboardState(),
  datasets: new DatasetsState(),
  deployments: new DeploymentsState(),
  detection: new DetectionState(ctx.config),
  energy: new EnergyState(),
  events: new EventsState(),
  experiments: new ExperimentsState(),
  gpu: new GpuState(),
  hubPushes: new HubPushesState(),
  looseKeys: new LooseKeysState(),
  inferenceBatches: new InferenceBatchesState(),
  metrics: new MetricsState(),
  models: new ModelsState(),
  people: new PeopleState(ctx),
  regions: new RegionsState(),
  responses: new ResponsesState(),
  rewards: new RewardsState(ctx.config),
  rollouts: new RolloutsState(),
  sessions: new SessionsState(ctx.config),
  storageUsage: new StorageUsageState(ctx),
  traces: new TracesState(),
  tracker: new TrackerState(),
  trainingJobs: new TrainingJobsState(),
  turns: new TurnsState(),
  vectorStores: new VectorStoresState(),
  uploads: new UploadsState(),
  volumes: new VolumesState(),
  webhooks: new WebhooksState(),
});
