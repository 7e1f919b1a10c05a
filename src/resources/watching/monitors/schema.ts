import { z } from "zod";
import { DateTime, isoOrNull, Label, later } from "../../../lib/schema.ts";
import { isoTime } from "../../../lib/time.ts";
import { DAY_MS, SECOND_MS } from "../../../lib/units.ts";
import { FACTS, METRICS } from "./metrics.ts";
import { SEVERITIES, type Severity } from "./policy.ts";
import { SETTINGS } from "./settings.ts";
import { EVENT_KINDS, type MonitorChangeRow, type MonitorRow } from "./table.ts";

const MAX_MUTE_SECONDS = (366 * DAY_MS) / SECOND_MS;

const Value = z.number().nullable();
const thresholds = () => ({ alert: Value, warning: Value, alert_recovery: Value, warning_recovery: Value });

export const Monitor = later(() => {
  const { name, window_seconds, reference_window_seconds, comparison, metadata, ...counting } = SETTINGS.answer();
  return z
    .object({
      object: z.literal("monitor"),
      id: z.string(),
      name,
      metric: z.enum(METRICS),
      unit: z.string().describe("Unit of value and of the thresholds"),
      deployment_id: z.string().nullable().describe("Null: all deployments of the workspace"),
      job_id: z.string().nullable(),
      endpoint_id: z.string().nullable().describe("Null: all webhook endpoints"),
      device: z.string().nullable().describe("Null: the device with the highest value"),
      score: z.string().nullable().describe("Name of the score"),
      window_seconds,
      reference_window_seconds,
      comparison,
      thresholds: z.object(thresholds()),
      ...counting,
      online_evaluation: z.object({ evaluator: z.string(), sample_percent: z.number() }).nullable(),
      severity: z.enum(SEVERITIES).describe("no_data also before the first evaluation"),
      value: z.number().nullable().describe("At the last evaluation"),
      samples: z.int().nullable().describe("Observations that value was computed from; null for a gauge"),
      muted_until: DateTime.nullable(),
      evaluated_at: DateTime.nullable(),
      changed_at: DateTime.nullable().describe("Time of the last change of severity"),
      metadata,
      created_at: DateTime,
      updated_at: DateTime,
    })
    .meta({ id: "Monitor" });
});
export type Monitor = z.infer<typeof Monitor>;

const Threshold = z.number().nullish();
const ThresholdFields = later(() =>
  z
    .object({
      alert: Threshold,
      warning: Threshold,
      alert_recovery: Threshold.describe("An alert ends only beyond this value. Default: alert"),
      warning_recovery: Threshold.describe("A warning ends only beyond this value. Default: warning"),
    })
    .meta({ id: "MonitorThresholds" }),
);
export type ThresholdFields = z.infer<typeof ThresholdFields>;

const Id = z.string().min(1).max(100);

const OnlineEvaluation = later(() =>
  z.object({
    evaluator: z.string().min(1).max(200).describe("Id, name or name@3 of an evaluator"),
    sample_percent: z.number().gt(0).max(100).describe("Share of the captured requests"),
  }),
);

const online = () => OnlineEvaluation.nullish().describe("Scores a share of the captured requests of deployment_id");

export const CreateMonitor = later(() => {
  const { metadata, comparison, ...others } = SETTINGS.create();
  return z
    .object({
      ...others,
      online_evaluation: online(),
      metadata,
      metric: z.enum(METRICS),
      deployment_id: Id.nullish(),
      job_id: Id.nullish(),
      endpoint_id: Id.nullish(),
      device: Id.nullish(),
      score: Label(100).nullish(),
      comparison,
      thresholds: ThresholdFields,
    })
    .meta({ id: "CreateMonitor" });
});
export type CreateMonitor = z.infer<typeof CreateMonitor>;

export const PreviewMonitor = later(() =>
  CreateMonitor.unwrap().omit({ name: true, metadata: true, online_evaluation: true }).meta({ id: "PreviewMonitor" }),
);
export type PreviewMonitor = z.infer<typeof PreviewMonitor>;

export const MonitorPreview = later(() =>
  z
    .object({
      object: z.literal("monitor.preview"),
      since: DateTime.describe("The first measurement. Later than a day ago if there is much to read"),
      until: DateTime,
      step_seconds: z.number().describe("The time between two measurements"),
      events: z.int().describe("How often monitor.triggered would have been emitted"),
      alerts: z.int().describe("How often the severity would have become alert"),
      warnings: z.int().describe("How often it would have become warning"),
      alert_seconds: z.number().describe("How long it would have been alert"),
      warning_seconds: z.number(),
      data: z
        .array(z.object({ at: DateTime, value: z.number().nullable(), severity: z.enum(SEVERITIES) }))
        .describe("Oldest first. Empty if the past of this metric is not known"),
    })
    .meta({ id: "MonitorPreview" }),
);
export type MonitorPreview = z.infer<typeof MonitorPreview>;

export const UpdateMonitor = later(() => {
  const { metadata, comparison, ...others } = SETTINGS.update();
  return z
    .object({
      ...others,
      online_evaluation: online(),
      metadata,
      comparison,
      thresholds: ThresholdFields.optional().describe("Replaces all thresholds"),
    })
    .meta({ id: "UpdateMonitor" });
});
export type UpdateMonitor = z.infer<typeof UpdateMonitor>;

export const MuteMonitor = later(() =>
  z
    .object({
      until: DateTime.nullish().describe("End of the mute. null ends it now"),
      seconds: z.number().gt(0).max(MAX_MUTE_SECONDS).optional().describe("Length of the mute, instead of until"),
    })
    .refine(({ until, seconds }) => (until === undefined) !== (seconds === undefined), {
      path: ["until"],
      message: "send until or seconds, not both",
    })
    .meta({ id: "MuteMonitor" }),
);
export type MuteMonitor = z.infer<typeof MuteMonitor>;

export const MonitorTest = later(() =>
  z
    .object({
      object: z.literal("monitor.test"),
      monitor_id: z.string(),
      value: z.number().nullable(),
      samples: z.int().nullable(),
      level: z.enum(SEVERITIES).describe("The severity of this value by itself"),
      severity: z.enum(SEVERITIES).describe("The severity after an evaluation with this value"),
      current_severity: z.enum(SEVERITIES),
      event: z.enum(EVENT_KINDS).nullable().describe("The event that the evaluation would emit"),
    })
    .meta({ id: "MonitorTest" }),
);
export type MonitorTest = z.infer<typeof MonitorTest>;

export const MonitorChange = later(() =>
  z
    .object({
      object: z.literal("monitor.change"),
      id: z.string().describe("Also the id of the event, if there is one"),
      monitor_id: z.string(),
      severity: z.enum(SEVERITIES),
      previous_severity: z.enum(SEVERITIES),
      value: z.number().nullable(),
      samples: z.int().nullable(),
      muted: z.boolean(),
      event: z.enum(EVENT_KINDS).nullable(),
      created_at: DateTime,
    })
    .meta({ id: "MonitorChange" }),
);
export type MonitorChange = z.infer<typeof MonitorChange>;

export function present(row: MonitorRow): Monitor {
  const { name, metadata, window_seconds, reference_window_seconds, comparison, ...counting } = SETTINGS.present(row);
  return {
    object: "monitor",
    id: row.id,
    name,
    metric: row.metric,
    unit: FACTS[row.metric].unit,
    deployment_id: row.deploymentId,
    job_id: row.jobId,
    endpoint_id: row.endpointId,
    device: row.device,
    score: row.score,
    window_seconds,
    reference_window_seconds,
    comparison,
    thresholds: {
      alert: row.alert,
      warning: row.warning,
      alert_recovery: row.alertRecovery,
      warning_recovery: row.warningRecovery,
    },
    ...counting,
    online_evaluation:
      row.evaluator === null ? null : { evaluator: row.evaluator, sample_percent: row.samplePercent ?? 100 },
    severity: row.severity,
    value: row.value,
    samples: row.samples,
    muted_until: isoOrNull(row.mutedUntil),
    evaluated_at: isoOrNull(row.evaluatedAt),
    changed_at: isoOrNull(row.changedAt),
    metadata,
    created_at: isoTime(row.createdAt),
    updated_at: isoTime(row.updatedAt),
  };
}

/** The data of events. `previous`: only for a change of severity. */
export const report = (row: MonitorRow, previous: Severity = row.severity) => ({
  object: "monitor" as const,
  id: row.id,
  name: row.name,
  metric: row.metric,
  severity: row.severity,
  previous_severity: previous,
  value: row.value,
  threshold: row.severity === "warning" ? row.warning : (row.alert ?? row.warning),
  deployment_id: row.deploymentId,
  job_id: row.jobId,
});

export const presentChange = (row: MonitorChangeRow): MonitorChange => ({
  object: "monitor.change",
  id: row.id,
  monitor_id: row.monitorId,
  severity: row.severity,
  previous_severity: row.previousSeverity,
  value: row.value,
  samples: row.samples,
  muted: row.muted,
  event: row.eventType,
  created_at: isoTime(row.createdAt),
});
