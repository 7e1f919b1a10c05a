/**
 * Everything that lives at run time beside the database, one field for each owner. Made once for each server by
 * `openContext`; it ends with the process. Making it has no effects.
 */
import type { Ctx } from "./context.ts";
import { HttpState } from "./http/state.ts";
import { BackupState } from "./platform/backup/schedule.ts";
import { TrustedClock } from "./platform/trusted_clock.ts";
import { TurnsState } from "./platform/turn_report.ts";
import { AnnotationQueuesState } from "./resources/annotation_queues/live.ts";
import { ApiKeysState } from "./resources/api_keys/live.ts";
import { BillingState } from "./resources/billing/run_time.ts";
import { BrowserSessionsState } from "./resources/browser_sessions/live.ts";
import { InferenceBatchesState } from "./resources/clients/batches/live.ts";
import { ResponsesState } from "./resources/clients/responses/live.ts";
import { CodeArtifactsState } from "./resources/code_artifacts/live.ts";
import { DashboardState } from "./resources/dashboard/live.ts";
import { DatasetsState } from "./resources/datasets/live.ts";
import { DeploymentsState } from "./resources/deployments/fleet/live.ts";
import { DetectionState } from "./resources/detection/live.ts";
import { EnergyState } from "./resources/energy/live.ts";
import { EventsState } from "./resources/events/live.ts";
import { ExperimentsState } from "./resources/experiments/live.ts";
import { GpuState } from "./resources/gpu/live.ts";
import { LooseKeysState } from "./resources/loose_keys/live.ts";
import { MetricsState } from "./resources/metrics/live.ts";
import { ModelsState } from "./resources/models/live.ts";
import { PeopleState } from "./resources/people/live.ts";
import { RegionsState } from "./resources/regions/live.ts";
import { RewardsState } from "./resources/reward_functions/live.ts";
import { SessionsState } from "./resources/sessions/live.ts";
import { StorageUsageState } from "./resources/storage_usage/live.ts";
import { ChecksState, ClockNote } from "./resources/system/live.ts";
import { TracesState } from "./resources/traces/live.ts";
import { TrackerState } from "./resources/tracker/live.ts";
import { TrainingJobsState } from "./resources/training_jobs/state/live.ts";
import { UploadsState } from "./resources/uploads/live.ts";
import { VolumesState } from "./resources/volumes/live.ts";
import { WebhooksState } from "./resources/webhooks/delivery/live.ts";

export type State = {
  readonly http: HttpState;
  readonly trustedClock: TrustedClock;
  readonly clockNote: ClockNote;
  readonly checks: ChecksState;
  readonly annotationQueues: AnnotationQueuesState;
  readonly apiKeys: ApiKeysState;
  readonly backup: BackupState;
  readonly billing: BillingState;
  readonly browserSessions: BrowserSessionsState;
  readonly codeArtifacts: CodeArtifactsState;
  readonly dashboard: DashboardState;
  readonly datasets: DatasetsState;
  readonly deployments: DeploymentsState;
  readonly detection: DetectionState;
  readonly energy: EnergyState;
  readonly events: EventsState;
  readonly experiments: ExperimentsState;
  readonly gpu: GpuState;
  readonly looseKeys: LooseKeysState;
  readonly inferenceBatches: InferenceBatchesState;
  readonly metrics: MetricsState;
  readonly models: ModelsState;
  readonly people: PeopleState;
  readonly regions: RegionsState;
  readonly responses: ResponsesState;
  readonly rewards: RewardsState;
  readonly sessions: SessionsState;
  readonly storageUsage: StorageUsageState;
  readonly traces: TracesState;
  readonly tracker: TrackerState;
  readonly trainingJobs: TrainingJobsState;
  readonly turns: TurnsState;
  readonly uploads: UploadsState;
  readonly volumes: VolumesState;
  readonly webhooks: WebhooksState;
};

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
  codeArtifacts: new CodeArtifactsState(),
  dashboard: new DashboardState(),
  datasets: new DatasetsState(),
  deployments: new DeploymentsState(),
  detection: new DetectionState(ctx.config),
  energy: new EnergyState(),
  events: new EventsState(),
  experiments: new ExperimentsState(),
  gpu: new GpuState(),
  looseKeys: new LooseKeysState(),
  inferenceBatches: new InferenceBatchesState(),
  metrics: new MetricsState(),
  models: new ModelsState(),
  people: new PeopleState(ctx),
  regions: new RegionsState(),
  responses: new ResponsesState(),
  rewards: new RewardsState(ctx.config),
  sessions: new SessionsState(ctx.config),
  storageUsage: new StorageUsageState(ctx),
  traces: new TracesState(),
  tracker: new TrackerState(),
  trainingJobs: new TrainingJobsState(),
  turns: new TurnsState(),
  uploads: new UploadsState(),
  volumes: new VolumesState(),
  webhooks: new WebhooksState(),
});
