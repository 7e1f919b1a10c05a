import { integer, primaryKey, real, sqliteTable, text, unique } from "drizzle-orm/sqlite-core";
import type { Metadata } from "../../../lib/schema.ts";
import { workspaces } from "../../access/workspaces/table.ts";
import { METRICS } from "./metrics.ts";
import { COMPARISONS, NO_DATA, SEVERITIES, type State } from "./policy.ts";

export const monitors = sqliteTable(
  "monitors",
  {
    id: text("id").primaryKey(),
    workspaceId: text("workspace_id")
      .notNull()
      .references(() => workspaces.id),
    name: text("name").notNull(),
    metric: text("metric", { enum: METRICS }).notNull(),
    deploymentId: text("deployment_id"),
    jobId: text("job_id"),
    endpointId: text("endpoint_id"),
    device: text("device"),
    score: text("score"),
    windowMs: integer("window_ms").notNull(),
    /** The window before it, for drift. */
    referenceMs: integer("reference_ms").notNull(),
    comparison: text("comparison", { enum: COMPARISONS }).notNull(),
    alert: real("alert"),
    warning: real("warning"),
    alertRecovery: real("alert_recovery"),
    warningRecovery: real("warning_recovery"),
    evaluations: integer("evaluations").notNull(),
    recoveryEvaluations: integer("recovery_evaluations").notNull(),
    noData: text("no_data", { enum: NO_DATA }).notNull(),
    minSamples: integer("min_samples").notNull(),
    /** Scores a share of the captured traffic. */
    evaluator: text("evaluator"),
    samplePercent: real("sample_percent"),
    /** Traffic before this time was sampled. */
    sampledUntil: integer("sampled_until"),
    severity: text("severity", { enum: SEVERITIES }).notNull(),
    state: text("state", { mode: "json" }).$type<Omit<State, "severity">>().notNull(),
    value: real("value"),
    samples: integer("samples"),
    mutedUntil: integer("muted_until"),
    evaluatedAt: integer("evaluated_at"),
    changedAt: integer("changed_at"),
    metadata: text("metadata", { mode: "json" }).$type<Metadata>().notNull(),
    createdAt: integer("created_at").notNull(),
    updatedAt: integer("updated_at").notNull(),
  },
  (t) => [unique().on(t.workspaceId, t.name)],
);
export type MonitorRow = typeof monitors.$inferSelect;

export const EVENT_KINDS = ["monitor.triggered", "monitor.recovered"] as const;

/** Changes of severity. The id is that of the event, if there is one. */
export const monitorChanges = sqliteTable("monitor_changes", {
  id: text("id").primaryKey(),
  monitorId: text("monitor_id")
    .notNull()
    .references(() => monitors.id, { onDelete: "cascade" }),
  workspaceId: text("workspace_id").notNull(),
  severity: text("severity", { enum: SEVERITIES }).notNull(),
  previousSeverity: text("previous_severity", { enum: SEVERITIES }).notNull(),
  value: real("value"),
  samples: integer("samples"),
  muted: integer("muted", { mode: "boolean" }).notNull(),
  eventType: text("event_type", { enum: EVENT_KINDS }),
  createdAt: integer("created_at").notNull(),
});
export type MonitorChangeRow = typeof monitorChanges.$inferSelect;

/** The last value of each minute. */
export const monitorValues = sqliteTable(
  "monitor_values",
  {
    monitorId: text("monitor_id")
      .notNull()
      .references(() => monitors.id, { onDelete: "cascade" }),
    /** Since 1970. */
    minute: integer("minute").notNull(),
    at: integer("at").notNull(),
    value: real("value"),
    samples: integer("samples"),
    severity: text("severity", { enum: SEVERITIES }).notNull(),
  },
  (t) => [primaryKey({ columns: [t.monitorId, t.minute] })],
);
