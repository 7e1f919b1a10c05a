import { z } from "zod";
import { isId } from "../../lib/ids.ts";
import { DateTime, isoOrNull, Label, later, Metadata } from "../../lib/schema.ts";
import { isoTime } from "../../lib/time.ts";
import { STAGES } from "../../workers/protocol.ts";
import { type DeploymentRow, type RequestRow, SOURCES, STATUSES } from "./table.ts";

const Load = z.object({
  stage: z.enum(STAGES).describe("What it is doing until it serves"),
  progress: z.number().min(0).max(1),
  reason: z.string().nullable().describe("What a queued deployment waits for"),
});
export type Load = z.infer<typeof Load>;

export const Deployment = later(() =>
  z
    .object({
      id: z.string(),
      object: z.literal("deployment"),
      status: z.enum(STATUSES),
      name: z.string().describe("Also the model name in chat completions"),
      model: z.string().describe("Training job id, or the name of a model"),
      source: z.enum(SOURCES),
      checkpoint: z.string().nullable(),
      endpoint_url: z.string().nullable().describe("Null until it serves"),
      gpu: z.object({ type: z.string(), count: z.int() }),
      provider: z.string(),
      cost_per_hour_usd: z.number().nullable(),
      total_cost_usd: z.number(),
      total_requests: z.int(),
      error: z.string().nullable().describe("Why it failed"),
      min_replicas: z.int().describe("0: it is parked when idle, and wakes on the next request"),
      max_replicas: z.int(),
      idle_timeout_seconds: z.int(),
      context_length: z.int().nullable().describe("Tokens for each sequence; null: the default"),
      parallel: z.int().nullable().describe("Sequences that a replica decodes at once; null: the default"),
      wake_timeout_seconds: z.int(),
      max_held_requests: z.int(),
      pinned: z.boolean().describe("Never parked to make room"),
      replicas: z.object({ desired: z.int(), ready: z.int() }),
      parked: z.boolean(),
      load: Load,
      started_at: DateTime.nullable(),
      stopped_at: DateTime.nullable(),
      last_request_at: DateTime.nullable(),
      metadata: z.record(z.string(), z.string()),
      created_at: DateTime,
      updated_at: DateTime,
    })
    .meta({ id: "Deployment" }),
);
export type Deployment = z.infer<typeof Deployment>;

const Name = Label(100).refine((name) => !isId(name, "dep"), "must not look like the id of a deployment");
const MAX_PARALLEL = 256; // of llama.cpp

const scaling = {
  min_replicas: z.int().min(0).max(64),
  max_replicas: z.int().min(1).max(64),
  idle_timeout_seconds: z.int().min(1).max(31_536_000),
  context_length: z.int().min(64).max(16_777_216).nullable(),
  parallel: z.int().min(1).max(MAX_PARALLEL).nullable(),
  wake_timeout_seconds: z.int().min(1).max(86_400),
  max_held_requests: z.int().min(0).max(100_000),
  pinned: z.boolean(),
};

const floorBelowCeiling = (d: { min_replicas?: number | undefined; max_replicas?: number | undefined }) =>
  d.min_replicas === undefined || d.max_replicas === undefined || d.min_replicas <= d.max_replicas;
const FLOOR = { path: ["min_replicas"], message: "must not be greater than max_replicas" };

export const CreateDeployment = z
  .object({
    model: Label(300).describe("A training job id, a model of the registry, or owner/name on the hub"),
    name: Name.describe("Also the model name in chat completions"),
    source: z.enum(SOURCES).optional().describe("Default: training_job when model is a job id, else hub"),
    checkpoint: Label(100).nullable().default(null),
    gpu: z
      .object({ gpu_type: Label(64).optional(), gpu_count: z.int().min(1).max(64).default(1) })
      .optional()
      .describe("Default: one of what this machine has"),
    provider: z.literal("local").default("local"),
    min_replicas: scaling.min_replicas.default(1),
    max_replicas: scaling.max_replicas.optional().describe("Default: 1, or min_replicas where that is more"),
    idle_timeout_seconds: scaling.idle_timeout_seconds.default(300),
    context_length: scaling.context_length.default(null),
    parallel: scaling.parallel.default(null),
    wake_timeout_seconds: scaling.wake_timeout_seconds.default(300),
    max_held_requests: scaling.max_held_requests.default(256),
    pinned: scaling.pinned.default(false),
    metadata: Metadata.default({}),
  })
  .refine(floorBelowCeiling, FLOOR)
  .refine((d) => d.checkpoint === null || d.source !== "hub", {
    path: ["checkpoint"],
    message: "is of a training job: leave it out for other models",
  })
  .meta({ id: "CreateDeployment" });
export type CreateDeployment = z.infer<typeof CreateDeployment>;

export const UpdateDeployment = z
  .object({ name: Name, ...scaling, metadata: Metadata })
  .partial()
  .refine(floorBelowCeiling, FLOOR)
  .meta({ id: "UpdateDeployment" });
export type UpdateDeployment = z.infer<typeof UpdateDeployment>;

export const StoppedDeployment = later(() =>
  z
    .object({
      id: z.string(),
      object: z.literal("deployment"),
      status: z.enum(STATUSES),
      stopped_at: DateTime.nullable(),
    })
    .meta({ id: "StoppedDeployment" }),
);

export const DeploymentRequest = later(() =>
  z
    .object({
      id: z.string(),
      object: z.literal("deployment_request"),
      deployment_id: z.string(),
      prompt_tokens: z.int(),
      completion_tokens: z.int(),
      latency_ms: z.number(),
      status_code: z.int().describe("499: the client left"),
      error_message: z.string().nullable(),
      created_at: DateTime,
    })
    .meta({ id: "DeploymentRequest" }),
);

export const DeploymentMetrics = later(() =>
  z
    .object({
      object: z.literal("deployment_metrics"),
      total_requests: z.int(),
      total_prompt_tokens: z.int(),
      total_completion_tokens: z.int(),
      total_cost_usd: z.number(),
      avg_latency_ms: z.number(),
      error_rate: z
        .number()
        .min(0)
        .max(1)
        .describe("The share of requests answered with a status of 400 or more; clients that left (499) do not count"),
      uptime_seconds: z.number(),
    })
    .meta({ id: "DeploymentMetrics" }),
);

/** What a client of the OpenAI format reads under a deployment's own address. */
export const ServedModelList = later(() =>
  z
    .object({
      object: z.literal("list"),
      data: z.array(z.object({ id: z.string(), object: z.literal("model"), created: z.int(), owned_by: z.string() })),
    })
    .meta({ id: "ServedModelList" }),
);

/** Whether it is (or, while it wakes or mends, remains) an address to send requests to. */
const isOpen = ({ status, waking }: DeploymentRow) =>
  status === "serving" || status === "unhealthy" || (status === "provisioning" && waking);

/** What only this process knows of a deployment. */
export type Seen = { desired: number; ready: number; load: Load };

export const present = (row: DeploymentRow, seen: Seen): Deployment => ({
  id: row.id,
  object: "deployment",
  status: row.status,
  name: row.name,
  model: row.model,
  source: row.source,
  checkpoint: row.checkpoint,
  endpoint_url: isOpen(row) ? `/v1/deployments/${row.id}/chat/completions` : null,
  gpu: { type: row.gpuType, count: row.gpuCount },
  provider: row.provider,
  cost_per_hour_usd: row.costPerHourMicros === null ? null : row.costPerHourMicros / 1e6,
  total_cost_usd: row.totalCostMicros / 1e6,
  total_requests: row.totalRequests,
  error: row.error,
  min_replicas: row.minReplicas,
  max_replicas: row.maxReplicas,
  idle_timeout_seconds: row.idleTimeoutSeconds,
  context_length: row.contextLength,
  parallel: row.parallel,
  wake_timeout_seconds: row.wakeTimeoutSeconds,
  max_held_requests: row.maxHeldRequests,
  pinned: row.pinned,
  replicas: { desired: seen.desired, ready: seen.ready },
  parked: row.parked,
  load: seen.load,
  started_at: isoOrNull(row.startedAt),
  stopped_at: isoOrNull(row.stoppedAt),
  last_request_at: isoOrNull(row.lastRequestAt),
  metadata: row.metadata,
  created_at: isoTime(row.createdAt),
  updated_at: isoTime(row.updatedAt),
});

export const presentRequest = (row: RequestRow): z.infer<typeof DeploymentRequest> => ({
  id: row.id,
  object: "deployment_request",
  deployment_id: row.deploymentId,
  prompt_tokens: row.promptTokens,
  completion_tokens: row.completionTokens,
  latency_ms: row.latencyMs,
  status_code: row.statusCode,
  error_message: row.errorMessage,
  created_at: isoTime(row.createdAt),
});

/** `now`: in the time of the deployment's service (`runTime`). */
export function presentMetrics(row: DeploymentRow, now: number): z.infer<typeof DeploymentMetrics> {
  const up = row.uptimeMs + (row.upSince === null ? 0 : Math.max(0, now - row.upSince));
  return {
    object: "deployment_metrics",
    total_requests: row.totalRequests,
    total_prompt_tokens: row.totalPromptTokens,
    total_completion_tokens: row.totalCompletionTokens,
    total_cost_usd: row.totalCostMicros / 1e6,
    avg_latency_ms: row.totalRequests === 0 ? 0 : row.totalLatencyMs / row.totalRequests,
    error_rate: row.totalRequests === 0 ? 0 : row.totalErrors / row.totalRequests,
    uptime_seconds: up / 1000,
  };
}
