import { useMemo, useRef } from "preact/hooks";
import type { Monitor, MonitorChange } from "../../../resources/monitors/schema.ts";
import { Chart } from "../../kit/chart/chart.tsx";
import { type Point, pointsOf } from "./points.ts";

const MOST_SEEN = 2_000;

/**
 * The value over time, with the thresholds. The server keeps the values at changes of the state. The page adds the values
 * that it sees while it is open.
 */
export function ValueChart({ monitor, changes }: { monitor: Monitor; changes: readonly MonitorChange[] }) {
  const seen = useRef<Point[]>([]);
  const { evaluated_at: at, value, thresholds } = monitor;
  const isNew = at !== null && seen.current.at(-1)?.[0] !== Date.parse(at) / 1000;
  if (isNew) seen.current = [...seen.current, [Date.parse(at) / 1000, value] as const].slice(-MOST_SEEN);
  const known = seen.current;
  const { x, values } = useMemo(() => pointsOf(changes, known), [changes, known]);
  const line = (label: string, limit: number | null, token: string) =>
    limit === null ? [] : [{ label, values: x.map(() => limit), token, dashed: true }];
  const series = useMemo(
    () => [
      { label: "Value", values, token: "--c1" },
      ...line("Alert", thresholds.alert, "--bad"),
      ...line("Warning", thresholds.warning, "--warn"),
    ],
    [x, values, thresholds.alert, thresholds.warning],
  );
  if (x.length < 2 || values.every((each) => each === null))
    return <p class="muted monitors-wait">The curve begins with the second measurement.</p>;
  return <Chart label={`Value of ${monitor.name} over time`} x={x} series={series} time height={220} />;
}
