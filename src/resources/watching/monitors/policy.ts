/** Decides the severity of a monitor from its measurements. Pure. */

export const SEVERITIES = ["ok", "warning", "alert", "no_data"] as const;
export type Severity = (typeof SEVERITIES)[number];
/** A severity that was judged from data. */
export type Level = Exclude<Severity, "no_data">;
export const COMPARISONS = ["above", "below"] as const;
export type Comparison = (typeof COMPARISONS)[number];
export const NO_DATA = ["ok", "no_data", "alert"] as const;

export type Thresholds = {
  alert: number | null;
  warning: number | null;
  /** An alert ends only beyond this value. Null: `alert` itself. */
  alertRecovery: number | null;
  warningRecovery: number | null;
};

export type Rule = Thresholds & {
  comparison: Comparison;
  /** Measurements in a row that a rise of the severity takes. */
  evaluations: number;
  /** Measurements in a row that a fall of the severity takes. */
  recoveryEvaluations: number;
  noData: (typeof NO_DATA)[number];
  minSamples: number;
};

/** `samples`: null for a value that always exists, such as free disk space. */
export type Measurement = { at: number; value: number | null; samples: number | null };

/** The part of a monitor's row that a judgement changes. */
export type State = {
  severity: Severity;
  /** The last severity that was judged from data. */
  level: Level;
  /** The severity of the last event. */
  notified: Level;
  /** Measurements in a row: at alert, at warning or more, below alert, ok, without data. */
  runs: Runs;
};
type Runs = { alert: number; warning: number; below: number; ok: number; none: number };

export const NO_RUNS: Runs = { alert: 0, warning: 0, below: 0, ok: 0, none: 0 };
export const NEW_STATE: State = { severity: "no_data", level: "ok", notified: "ok", runs: NO_RUNS };

export type EventKind = "triggered" | "recovered";
/** One measurement that changed the severity, or that ended a mute with news. */
export type Change = {
  measurement: Measurement;
  from: Severity;
  to: Severity;
  muted: boolean;
  event: EventKind | null;
};
export type Judgement = { state: State; changes: Change[] };

/**
 * Folds the measurements into the state. `mutedUntil`: measurements before this time make no event. The first measurement after it
 * makes the event that is still due. A trouble that came and went while muted makes none.
 */
export function judge(
  series: readonly Measurement[],
  rule: Rule,
  state: State,
  mutedUntil = Number.NEGATIVE_INFINITY,
): Judgement {
  let now = state;
  const changes: Change[] = [];
  for (const measurement of series) {
    const next = step(measurement, rule, now);
    const muted = measurement.at < mutedUntil;
    const event = muted ? null : eventOf(next);
    if (next.severity !== now.severity || event !== null)
      changes.push({ measurement, from: now.severity, to: next.severity, muted, event });
    now = event === null ? next : { ...next, notified: next.level };
  }
  return { state: now, changes };
}

const eventOf = ({ severity, level, notified }: State): EventKind | null =>
  severity === "no_data" || level === notified ? null : level === "ok" ? "recovered" : "triggered";

function step(measurement: Measurement, rule: Rule, state: State): State {
  const seen = levelOf(measurement, rule, state.level);
  const runs = count(state.runs, seen);
  if (seen === "no_data")
    return { ...state, runs, severity: runs.none >= rule.evaluations ? "no_data" : state.severity };
  const level = nextLevel(state.level, runs, rule);
  return { ...state, runs, level, severity: level };
}

/** The severity of a measurement by itself. Without data the rule may give one. */
export function levelOf({ value, samples }: Measurement, rule: Rule, before: Level): Severity {
  if (value === null || (samples !== null && samples < rule.minSamples)) return rule.noData;
  const beyond = (threshold: number | null) =>
    threshold !== null && (rule.comparison === "above" ? value > threshold : value < threshold);
  const { alert, warning } = rule;
  if (beyond(alert) || (before === "alert" && beyond(rule.alertRecovery))) return "alert";
  if (beyond(warning) || (before !== "ok" && warning !== null && beyond(rule.warningRecovery))) return "warning";
  return "ok";
}

/** A measurement without data breaks every other run: it proves nothing. */
function count(runs: Runs, seen: Severity): Runs {
  const next = (run: number, goesOn: boolean) => (goesOn ? run + 1 : 0);
  return {
    alert: next(runs.alert, seen === "alert"),
    warning: next(runs.warning, seen === "alert" || seen === "warning"),
    below: next(runs.below, seen === "ok" || seen === "warning"),
    ok: next(runs.ok, seen === "ok"),
    none: next(runs.none, seen === "no_data"),
  };
}

function nextLevel(level: Level, runs: Runs, { evaluations, recoveryEvaluations }: Rule): Level {
  if (runs.alert >= evaluations) return "alert";
  if (level === "ok") return runs.warning >= evaluations ? "warning" : "ok";
  if (runs.ok >= recoveryEvaluations) return "ok";
  if (level === "alert" && runs.below >= recoveryEvaluations) return "warning";
  return level;
}

/** The first fault of the thresholds, by the name of its field. */
export function thresholdFault(
  comparison: Comparison,
  { alert, warning, alertRecovery, warningRecovery }: Thresholds,
): { field: "alert" | "warning" | "alert_recovery" | "warning_recovery"; message: string } | undefined {
  if (alert === null && warning === null) return { field: "alert", message: "is missing: set alert, warning or both" };
  const [worse, better] = comparison === "above" ? ["above", "at most"] : ["below", "at least"];
  const isBeyond = (a: number, b: number) => (comparison === "above" ? a > b : a < b);
  if (alert !== null && warning !== null && !isBeyond(alert, warning))
    return { field: "alert", message: `must be ${worse} warning (${warning})` };
  const pairs = [
    ["alert_recovery", alertRecovery, "alert", alert],
    ["warning_recovery", warningRecovery, "warning", warning],
  ] as const;
  for (const [field, recovery, name, trigger] of pairs) {
    if (recovery === null) continue;
    if (trigger === null) return { field, message: `needs ${name}` };
    if (isBeyond(recovery, trigger)) return { field, message: `must be ${better} ${name} (${trigger})` };
  }
  return undefined;
}
