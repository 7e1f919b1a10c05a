/** Replays a rule over the past: how often a monitor would have fired. Reads only. */
import { and, asc, eq, gte, isNull, max } from "drizzle-orm";
import type { Ctx, Principal } from "../../../context.ts";
import { isoTime } from "../../../lib/time.ts";
import { takingTurns } from "../../../lib/turns.ts";
import { DAY_MS, MINUTE_MS, SECOND_MS } from "../../../lib/units.ts";
import { measureAt } from "./measure.ts";
import { isGauge } from "./metrics.ts";
import { judge, type Measurement, NEW_STATE, type Rule } from "./policy.ts";
import type { MonitorPreview, PreviewMonitor } from "./schema.ts";
import { draft } from "./service.ts";
import { type MonitorRow, monitors, monitorValues } from "./table.ts";
import { VALUE_DAYS } from "./values.ts";

const MOST_POINTS = 288; // every five minutes of a day
const MOST_WORK_MS = 400; // of the processor
/** A window of this length sees little of one day. */
const LONG_WINDOW_MS = DAY_MS / 4;

export async function preview(ctx: Ctx, principal: Principal, input: PreviewMonitor): Promise<MonitorPreview> {
  const row = draft(ctx, principal, { ...input, name: "preview", metadata: {} });
  const now = ctx.clock.now();
  const spanMs = row.windowMs > LONG_WINDOW_MS ? VALUE_DAYS * DAY_MS : DAY_MS;
  const intervalMs = ctx.config.monitors.interval_seconds * SECOND_MS;
  const stepMs = isGauge(row.metric) ? MINUTE_MS : Math.max(spanMs / MOST_POINTS, intervalMs);
  const series = isGauge(row.metric)
    ? recorded(ctx, row, now - spanMs)
    : await measured(ctx, row, { since: now - spanMs, until: now, stepMs });
  // So many evaluations in a row take a time. The replay has fewer measurements in that time.
  const inSteps = (evaluations: number) => Math.max(1, Math.round((evaluations * intervalMs) / stepMs));
  const rule = {
    ...row,
    evaluations: inSteps(row.evaluations),
    recoveryEvaluations: inSteps(row.recoveryEvaluations),
  };
  return { ...countsOf(series, rule, stepMs), since: isoTime(series[0]?.at ?? now), until: isoTime(now) };
}

/** Newest first, so that a busy workspace gets at least the last hours; then turned round. */
async function measured(ctx: Ctx, row: MonitorRow, span: { since: number; until: number; stepMs: number }) {
  const turn = takingTurns();
  const series: Measurement[] = [];
  let workedMs = 0;
  for (let at = span.until; at > span.since && workedMs < MOST_WORK_MS; at -= span.stepMs) {
    const before = process.threadCpuUsage();
    series.push(measureAt(ctx, row, Math.round(at)));
    const { user, system } = process.threadCpuUsage();
    workedMs += (user - before.user + system - before.system) / 1_000;
    await turn();
  }
  return series.reverse();
}

/** Values that monitors of the same figure have recorded. */
function recorded({ db }: Ctx, { workspaceId, metric, device }: MonitorRow, since: number): Measurement[] {
  const { at, minute, monitorId, samples, value } = monitorValues;
  return db
    .select({ at: max(at).mapWith(Number), value, samples })
    .from(monitorValues)
    .innerJoin(monitors, eq(monitors.id, monitorId))
    .where(
      and(
        eq(monitors.workspaceId, workspaceId),
        eq(monitors.metric, metric),
        device === null ? isNull(monitors.device) : eq(monitors.device, device),
        gte(minute, Math.floor(since / MINUTE_MS)),
      ),
    )
    .groupBy(minute)
    .orderBy(asc(minute))
    .all();
}

function countsOf(series: readonly Measurement[], rule: Rule, stepMs: number) {
  let state = NEW_STATE;
  const changes: ReturnType<typeof judge>["changes"] = [];
  const data = series.map((measurement) => {
    const judged = judge([measurement], rule, state);
    state = judged.state;
    changes.push(...judged.changes);
    return { at: isoTime(measurement.at), value: measurement.value, severity: state.severity };
  });
  const became = (severity: "alert" | "warning") =>
    changes.filter(({ from, to }) => to === severity && from !== severity).length;
  const secondsOf = (severity: "alert" | "warning") =>
    (data.filter((point) => point.severity === severity).length * stepMs) / SECOND_MS;
  return {
    object: "monitor.preview" as const,
    step_seconds: stepMs / SECOND_MS,
    events: changes.filter(({ event }) => event === "triggered").length,
    alerts: became("alert"),
    warnings: became("warning"),
    alert_seconds: secondsOf("alert"),
    warning_seconds: secondsOf("warning"),
    data,
  };
}
