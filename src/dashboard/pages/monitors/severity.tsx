import type { Monitor } from "../../../resources/watching/monitors/schema.ts";
import { Pill } from "../../kit/pill.tsx";
import { now } from "../../kit/time.tsx";
import { inUnit, isMuted, SEVERITIES } from "./words.ts";

/** "Alert", with the reason below: "2.4 s is above 2 s". */
export const Severity = ({ of, reason = true }: { of: Monitor; reason?: boolean }) => {
  const [shown, tone] = SEVERITIES[of.severity];
  return (
    <span class="state">
      <span class="row">
        <Pill tone={tone}>{shown}</Pill>
        {isMuted(of, now.value) && <Pill tone="idle">Muted</Pill>}
      </span>
      {reason && <small>{reasonOf(of)}</small>}
    </span>
  );
};

function reasonOf({ severity, value, unit, comparison, thresholds, samples, min_samples }: Monitor): string {
  const limit = severity === "warning" ? thresholds.warning : (thresholds.alert ?? thresholds.warning);
  if (severity === "no_data" || value === null) {
    if (samples !== null && samples > 0) return `${samples} of ${min_samples} observations that it needs`;
    return "Nothing was measured in the window";
  }
  const is = inUnit(value, unit);
  if (severity === "ok") return `${is} now`;
  return `${is} is ${comparison} ${inUnit(limit, unit)}`;
}
