import { z } from "zod";
import { STATUSES } from "../../../lib/deployment_status.ts";
import { usdOf } from "../../../lib/money.ts";
import { DateTime, isoOrNull, Label, later } from "../../../lib/schema.ts";
import { isoTime } from "../../../lib/time.ts";
import { STAGES } from "../../../workers/protocol.ts";
import { SETTINGS } from "./settings.ts";
import { type DeploymentRow, ERROR_CODES, type ModelRef, type RequestRow, SOURCES } from "./table.ts";

const Load = later(() =>
  z.object({
    stage: z.enum(STAGES).describe("Current stage of the start"),
    progress: z.number().min(0).max(1),
    reason: z.string().nullable().describe("The reason why it is queued"),
  }),
);
export type Load = z.infer<typeof Load>;

const ModelReference = later(() =>
  z.object({ model: z.string(), source: z.enum(SOURCES), checkpoint: z.string().nullable() }),
);

export const Deployment = later(() => {
  // taken apart, because this part of the document has another order than the requests
  const { name, max_held_requests, pinned, capture, capture_retention_days, capture_redact, metadata, ...first } =
    SETTINGS.answer();
  return z
    .object({
      id: z.string(),
      object: z.literal("deployment"),
      status: z.enum(STATUSES),
      name,
      model: z.string().describe("Training job id, or the name of a model"),
      source: z.enum(SOURCES).describe("training_job: made by a job. hub: any other model, built-in ones included"),
      checkpoint: z.string().nullable(),
      next_model: ModelReference.unwrap()
        .extend({ load: Load })
        .nullable()
        .describe("The model that replaces this one once it is loaded, with the stage of its start"),
      previous_model: ModelReference.nullable().describe("The model before the last switch"),
      endpoint_url: z.string().nullable().describe("Null until the deployment serves"),
      gpu: z.object({ type: z.string(), count: z.int() }),
      provider: z.string(),
      region: z.string().describe("`local`, or the id of the region in which its replicas run"),
      cost_per_hour_usd: z.number().nullable(),
      total_cost_usd: z.number(),
      total_requests: z.int(),
      error: z.string().nullable().describe("The cause if status is failed, else null"),
      error_code: z.enum(ERROR_CODES).nullable().describe("no_capacity: it waited too long for memory, or cannot fit"),
      last_error: z
        .string()
        .nullable()
        .describe(
          "The last error in any status, such as a failed wake or switch; null once the deployment serves again",
        ),
      ...first,
      max_held_requests,
      pinned,
      capture,
      capture_retention_days,
      capture_redact,
      replicas: z.object({ desired: z.int(), ready: z.int() }),
      parked: z.boolean(),
      load: Load,
      started_at: DateTime.nullable(),
      stopped_at: DateTime.nullable(),
      last_request_at: DateTime.nullable(),
      metadata,
      created_at: DateTime,
      updated_at: DateTime,
    })
    .meta({ id: "Deployment" });
});
export type Deployment = z.infer<typeof Deployment>;

const MODEL = Label(300).describe("A model or a job by id or name, a checkpoint, a path, or owner/name of the hub");
const SOURCE = later(() =>
  z
    .enum(SOURCES)
    .optional()
    .describe(
      "Default: training_job if model is a job id. For any other model the default is hub: the registry of this server, then the hub",
    ),
);
const isOfJob = (d: { checkpoint?: string | null | undefined; source?: string | undefined }) =>
  d.checkpoint === null || d.checkpoint === undefined || d.source !== "hub";
const OF_JOB = { path: ["checkpoint"], message: "only works with a training job: leave it out for other models" };

const floorBelowCeiling = (d: { min_replicas?: number | undefined; max_replicas?: number | undefined }) =>
  d.min_replicas === undefined || d.max_replicas === undefined || d.min_replicas <= d.max_replicas;
const FLOOR = { path: ["min_replicas"], message: "must not be greater than max_replicas" };

export const CreateDeployment = later(() => {
  const { name, ...others } = SETTINGS.create();
  return z
    .object({
      model: MODEL,
      name,
      source: SOURCE,
      checkpoint: Label(100).nullable().default(null),
      gpu: z
        .object({ gpu_type: Label(64).optional(), gpu_count: z.int().min(1).max(64).default(1) })
        .optional()
        .describe("Devices of each replica. Default: one device of this machine"),
      provider: Label(64)
        .optional()
        .describe("local, ssh, slurm, or the name of a cloud. Default: that of the region, or local"),
      region: Label(100)
        .optional()
        .describe("The id or name of a region. Default: this machine, or the cheapest region of the provider"),
      ...others,
    })
    .refine(floorBelowCeiling, FLOOR)
    .refine(isOfJob, OF_JOB)
    .meta({ id: "CreateDeployment" });
});
export type CreateDeployment = z.infer<typeof CreateDeployment>;

export const UpdateDeployment = later(() =>
  z
    .object({
      model: MODEL.describe(
        "Switches to this model: a training job id, a model of this server, or owner/name of the hub",
      ).optional(),
      source: SOURCE,
      checkpoint: Label(100).nullable().optional(),
      ...SETTINGS.update(),
    })
    .refine(floorBelowCeiling, FLOOR)
    .refine(isOfJob, OF_JOB)
    .refine((d) => d.model !== undefined || (d.checkpoint === undefined && d.source === undefined), {
      path: ["model"],
      message: "is missing: name the model that checkpoint or source belongs to",
    })
    .meta({ id: "UpdateDeployment" }),
);
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
      status_code: z.int().describe("499 if the client closed its connection"),
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

/** The list of models under the address of a deployment, in the OpenAI format. */
export const ServedModelList = later(() =>
  z
    .object({
      object: z.literal("list"),
      data: z.array(z.object({ id: z.string(), object: z.literal("model"), created: z.int(), owned_by: z.string() })),
    })
    .meta({ id: "ServedModelList" }),
);

/** True while requests are accepted; also while the deployment wakes or recovers. */
const isOpen = ({ status, waking }: DeploymentRow) =>
  status === "serving" || status === "unhealthy" || (status === "provisioning" && waking);

/** The part of the answer that is not in the row. */
export type LiveView = { desired: number; ready: number; load: Load; nextLoad: Load };

const presentRef = ({ model, source, checkpoint }: ModelRef) => ({ model, source, checkpoint });

export const present = (row: DeploymentRow, live: LiveView): Deployment => {
  const { name, metadata, ...settings } = SETTINGS.present(row);
  return {
    id: row.id,
    object: "deployment",
    status: row.status,
    name,
    ...presentRef(row),
    next_model: row.nextModel && { ...presentRef(row.nextModel), load: live.nextLoad },
    previous_model: row.previousModel && presentRef(row.previousModel),
    endpoint_url: isOpen(row) ? `/v1/deployments/${row.id}/chat/completions` : null,
    gpu: { type: row.gpuType, count: row.gpuCount },
    provider: row.provider,
    region: row.region,
    cost_per_hour_usd: row.costPerHourMicros === null ? null : usdOf(row.costPerHourMicros),
    total_cost_usd: usdOf(row.totalCostMicros),
    total_requests: row.totalRequests,
    error: row.status === "failed" ? row.error : null,
    error_code: row.status === "failed" ? row.errorCode : null,
    last_error: row.error,
    ...settings,
    replicas: { desired: live.desired, ready: live.ready },
    parked: row.parked,
    load: live.load,
    started_at: isoOrNull(row.startedAt),
    stopped_at: isoOrNull(row.stoppedAt),
    last_request_at: isoOrNull(row.lastRequestAt),
    metadata,
    created_at: isoTime(row.createdAt),
    updated_at: isoTime(row.updatedAt),
  };
};

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
    total_cost_usd: usdOf(row.totalCostMicros),
    avg_latency_ms: row.totalRequests === 0 ? 0 : row.totalLatencyMs / row.totalRequests,
    error_rate: row.totalRequests === 0 ? 0 : row.totalErrors / row.totalRequests,
    uptime_seconds: up / 1000,
  };
}
