import { z } from "zod";
import { later } from "../lib/schema.ts";

/**
 * Every event type and the shape of its `data`. Types are API: add freely, never rename. Only the fields named
 * here leave the house (the rest is stripped), so a payload cannot carry a secret by accident.
 * `webhook`: part of the published event kinds; the others are seen in the pull feed alone.
 */
const subject = <O extends string, S extends z.ZodRawShape>(object: O, shape: () => S) =>
  later(() => z.object({ object: z.literal(object), id: z.string(), ...shape() }));

const workspace = subject("workspace", () => ({ name: z.string(), status: z.string() }));
const apiKey = subject("api_key", () => ({ name: z.string(), key_prefix: z.string(), scopes: z.array(z.string()) }));
const sshKey = subject("ssh_key", () => ({ name: z.string(), fingerprint: z.string() }));
const region = subject("region", () => ({ name: z.string(), provider: z.string() }));
const machine = subject("machine", () => ({
  name: z.string(),
  cloud: z.string(),
  status: z.string(),
  region: z.string(),
  reason: z.string().nullable(),
}));
const secret = subject("secret", () => ({ name: z.string(), scope_host: z.string() }));
const trackerIntegration = subject("tracker_integration", () => ({ type: z.string(), base_url: z.string() }));
const model = subject("model", () => ({ name: z.string(), status: z.string() }));
const hubPush = subject("hub_push", () => ({
  status: z.string(),
  repo: z.string(),
  url: z.string().nullable(),
  job_id: z.string().nullable(),
  model_id: z.string().nullable(),
  error: z.string().nullable(),
}));
const deployment = subject("deployment", () => ({ status: z.string(), name: z.string() }));
const deploymentSwitched = subject("deployment", () => ({
  status: z.string(),
  name: z.string(),
  model: z.string(),
  previous_model: z.string().nullable(),
}));
const deploymentSwitchFailed = subject("deployment", () => ({
  status: z.string(),
  name: z.string(),
  model: z.string(),
  error: z.string(),
}));

const rollout = subject("rollout", () => ({
  status: z.string(),
  ended_by: z.string().nullable(),
  turns: z.int(),
  reward: z.number().nullable(),
}));

const dataset = subject("dataset", () => ({ name: z.string(), source_type: z.string(), head_row: z.int() }));
const rowsAppended = subject("dataset", () => ({
  name: z.string(),
  batch_id: z.string(),
  first_row_id: z.int(),
  last_row_id: z.int(),
  count: z.int(),
  head_row: z.int(),
}));
const snapshotCreated = subject("dataset_snapshot", () => ({
  dataset_id: z.string(),
  head_row: z.int(),
  row_count: z.int(),
  trigger: z.string(),
}));
const resolution = subject("dataset_resolution", () => ({
  dataset_id: z.string(),
  status: z.string(),
  rows: z.int(),
  total_rows: z.int().nullable(),
}));
const volume = subject("volume", () => ({ name: z.string() }));
const volumeFile = subject("volume_file", () => ({ volume: z.string(), path: z.string(), size_bytes: z.int() }));
const codeArtifact = subject("code_artifact", () => ({ name: z.string(), sha256: z.string() }));
const rewardFunction = subject("reward_function", () => ({ name: z.string(), version: z.int(), status: z.string() }));
const evaluator = subject("evaluator", () => ({ name: z.string(), version: z.int(), kind: z.string() }));
const experiment = subject("experiment", () => ({
  name: z.string(),
  status: z.string(),
  items_total: z.int(),
  items_done: z.int(),
  items_failed: z.int(),
}));
const session = subject("session", () => ({ name: z.string().nullable(), status: z.string() }));

const annotationQueue = subject("annotation_queue", () => ({ name: z.string(), mode: z.string() }));
const annotationItem = subject("annotation_item", () => ({
  queue_id: z.string(),
  status: z.string(),
  preferred: z.string().nullable(),
  dataset_id: z.string().nullable(),
  dataset_row_id: z.int().nullable(),
}));

/** `model` is null for jobs that run a script of the user. */
const job = subject("job", () => ({ status: z.string(), model: z.string().nullable() }));

const pausedJob = subject("job", () => ({
  status: z.string(),
  model: z.string().nullable(),
  reason: z.string().nullable(),
}));

const balance = () => ({ balance_usd: z.number() });

const webhookEndpoint = subject("webhook_endpoint", () => ({ status: z.string() }));

const detectionBatch = subject("detection_batch", () => ({
  status: z.string(),
  total: z.int(),
  success_count: z.int(),
  failure_count: z.int(),
}));

const detectionAccount = subject("detection_account", () => ({
  plan: z.string(),
  credits: z.number(),
  total: z.number(),
  threshold: z.number(),
}));

const monitor = subject("monitor", () => ({
  name: z.string(),
  metric: z.string(),
  severity: z.string(),
  previous_severity: z.string(),
  value: z.number().nullable(),
  threshold: z.number().nullable(),
  deployment_id: z.string().nullable(),
  job_id: z.string().nullable(),
}));
const agent = subject("agent", () => ({ name: z.string(), version: z.int() }));

export const CATALOG = {
  "workspace.created": { webhook: false, data: workspace },
  "workspace.updated": { webhook: false, data: workspace },
  "workspace.suspended": { webhook: false, data: workspace },
  "workspace.resumed": { webhook: false, data: workspace },
  "workspace.deleted": { webhook: false, data: workspace },
  "api_key.created": { webhook: false, data: apiKey },
  "api_key.revoked": { webhook: false, data: apiKey },
  "region.created": { webhook: false, data: region },
  "region.deleted": { webhook: false, data: region },
  "machine.created": { webhook: false, data: machine },
  "machine.ready": { webhook: false, data: machine },
  "machine.ending": { webhook: false, data: machine },
  "machine.ended": { webhook: false, data: machine },
  "machine.stuck": { webhook: false, data: machine },
  "machine.orphaned": { webhook: false, data: machine },
  "ssh_key.created": { webhook: false, data: sshKey },
  "ssh_key.deleted": { webhook: false, data: sshKey },
  "secret.created": { webhook: false, data: secret },
  "secret.updated": { webhook: false, data: secret },
  "secret.deleted": { webhook: false, data: secret },
  "tracker_integration.created": { webhook: false, data: trackerIntegration },
  "tracker_integration.updated": { webhook: false, data: trackerIntegration },
  "tracker_integration.deleted": { webhook: false, data: trackerIntegration },
  "model.created": { webhook: false, data: model },
  "model.updated": { webhook: false, data: model },
  "model.ready": { webhook: false, data: model },
  "model.failed": { webhook: false, data: model },
  "model.deleted": { webhook: false, data: model },
  "hub_push.created": { webhook: false, data: hubPush },
  "hub_push.completed": { webhook: false, data: hubPush },
  "hub_push.failed": { webhook: false, data: hubPush },
  "hub_push.cancelled": { webhook: false, data: hubPush },
  "deployment.created": { webhook: false, data: deployment },
  "deployment.updated": { webhook: false, data: deployment },
  "deployment.switched": { webhook: true, data: deploymentSwitched },
  "deployment.switch_failed": { webhook: true, data: deploymentSwitchFailed },
  "deployment.stopped": { webhook: false, data: deployment },
  "deployment.deleted": { webhook: false, data: deployment },
  "deployment.unhealthy": { webhook: false, data: deployment },
  "deployment.serving": { webhook: true, data: deployment },
  "deployment.failed": { webhook: true, data: deployment },
  "deployment.scaled_to_zero": { webhook: true, data: deployment },
  "dataset.created": { webhook: false, data: dataset },
  "dataset.updated": { webhook: false, data: dataset },
  "dataset.deleted": { webhook: false, data: dataset },
  "dataset.rows_appended": { webhook: true, data: rowsAppended },
  "dataset.snapshot_created": { webhook: true, data: snapshotCreated },
  "dataset_resolution.created": { webhook: false, data: resolution },
  "dataset_resolution.progress": { webhook: false, data: resolution },
  "dataset_resolution.completed": { webhook: false, data: resolution },
  "dataset_resolution.failed": { webhook: false, data: resolution },
  "dataset_resolution.cancelled": { webhook: false, data: resolution },
  "volume.created": { webhook: false, data: volume },
  "volume.deleted": { webhook: false, data: volume },
  "volume_file.written": { webhook: false, data: volumeFile },
  "volume_file.deleted": { webhook: false, data: volumeFile },
  "code_artifact.created": { webhook: false, data: codeArtifact },
  "code_artifact.deleted": { webhook: false, data: codeArtifact },
  "reward_function.created": { webhook: false, data: rewardFunction },
  "reward_function.deleted": { webhook: false, data: rewardFunction },
  "evaluator.created": { webhook: false, data: evaluator },
  "evaluator.deleted": { webhook: false, data: evaluator },
  "experiment.created": { webhook: false, data: experiment },
  "experiment.completed": { webhook: true, data: experiment },
  "experiment.failed": { webhook: true, data: experiment },
  "experiment.cancelled": { webhook: false, data: experiment },
  "experiment.deleted": { webhook: false, data: experiment },
  "annotation_queue.created": { webhook: false, data: annotationQueue },
  "annotation_queue.updated": { webhook: false, data: annotationQueue },
  "annotation_queue.deleted": { webhook: false, data: annotationQueue },
  "annotation_item.completed": { webhook: false, data: annotationItem },
  "annotation_item.skipped": { webhook: false, data: annotationItem },
  "session.created": { webhook: false, data: session },
  "session.ready": { webhook: false, data: session },
  "session.stopped": { webhook: false, data: session },
  "session.expired": { webhook: false, data: session },
  "session.failed": { webhook: false, data: session },
  "job.created": { webhook: false, data: job },
  "job.provisioning": { webhook: false, data: job },
  "job.running": { webhook: false, data: job },
  "job.paused": { webhook: false, data: pausedJob },
  "job.requeued": { webhook: false, data: job },
  "job.cancelling": { webhook: false, data: job },
  "job.cancelled": { webhook: false, data: job },
  "job.completed": { webhook: true, data: job },
  "job.failed": { webhook: true, data: job },
  "job.updated": { webhook: false, data: job },
  "job.deleted": { webhook: false, data: job },
  "detection_batch.created": { webhook: false, data: detectionBatch },
  "detection_batch.completed": { webhook: false, data: detectionBatch },
  "detection_batch.cancelled": { webhook: false, data: detectionBatch },
  "detection_credits.low": { webhook: false, data: detectionAccount },
  "detection_credits.exhausted": { webhook: false, data: detectionAccount },
  "credit.granted": { webhook: false, data: subject("balance", () => ({ ...balance(), amount_usd: z.number() })) },
  "credit.low": { webhook: true, data: subject("balance", () => ({ ...balance(), threshold_percent: z.number() })) },
  "credit.exhausted": { webhook: true, data: subject("balance", balance) },
  "monitor.created": { webhook: false, data: monitor },
  "monitor.updated": { webhook: false, data: monitor },
  "monitor.deleted": { webhook: false, data: monitor },
  "monitor.triggered": { webhook: true, data: monitor },
  "monitor.recovered": { webhook: true, data: monitor },
  "rollout.created": { webhook: false, data: rollout },
  "rollout.ended": { webhook: false, data: rollout },
  "rollout.finished": { webhook: false, data: rollout },
  "rollout.deleted": { webhook: false, data: rollout },
  "agent.created": { webhook: false, data: agent },
  "agent.deleted": { webhook: false, data: agent },
  "webhook_endpoint.created": { webhook: false, data: webhookEndpoint },
  "webhook_endpoint.updated": { webhook: false, data: webhookEndpoint },
  "webhook_endpoint.enabled": { webhook: false, data: webhookEndpoint },
  "webhook_endpoint.disabled": { webhook: false, data: webhookEndpoint },
  "webhook_endpoint.deleted": { webhook: false, data: webhookEndpoint },
  "webhook.test": { webhook: true, data: subject("webhook_endpoint", () => ({})) },
} as const satisfies Record<string, { webhook: boolean; data: z.ZodType<{ id: string }> }>;

export type EventType = keyof typeof CATALOG;
export type EventPayload<T extends EventType> = z.infer<(typeof CATALOG)[T]["data"]>;
export const EVENT_TYPES = Object.keys(CATALOG) as EventType[];
