import { useMemo, useRef } from "preact/hooks";
import type { Monitor } from "../../../resources/watching/monitors/schema.ts";
import type { MonitorValues } from "../../../resources/watching/monitors/values.ts";
import { useResource } from "../../data/resource.ts";
import { Chart } from "../../kit/chart/chart.tsx";
import type { Mark, Series } from "../../kit/chart/series.ts";
import { Skeleton } from "../../kit/page.tsx";
import { now } from "../../kit/time.tsx";
import { queryOf, setQuery } from "../../shell/router.ts";
import type { Alarm } from "./alarms.ts";
import { type Point, pointsOf } from "./points.ts";
import { inUnit, METRICS } from "./words.ts";

const MOST_SEEN = 2_000;
const HOUR = 3_600;
const SPANS = { "1 h": HOUR, "6 h": 6 * HOUR, "24 h": 24 * HOUR, "14 d": 14 * 24 * HOUR } as const;
type Span = keyof typeof SPANS;
const isSpan = (text: string | undefined): text is Span => text !== undefined && Object.hasOwn(SPANS, text);
/** The address of the values changes this often; between, the page adds the values that it sees. */
const REFRESH = 300;

/** The value over time, with the thresholds as lines. */
export function ValueChart({ monitor, alarms }: { monitor: Monitor; alarms: readonly Alarm[] }) {
  const chosen = queryOf("span");
  const span: Span = isSpan(chosen) ? chosen : "24 h";
  const since = Math.floor(now.value / 1000 / REFRESH) * REFRESH - SPANS[span];
  const path = `/v1/monitors/${monitor.id}/values?max_points=600&since=${new Date(since * 1000).toISOString()}`;
  const stored = useResource<MonitorValues>(path);
  const last = useRef<MonitorValues | undefined>(undefined);
  last.current = stored.data ?? last.current; // the curve stays while a new span is loaded
  const seen = useSeen(monitor);
  const points = last.current?.data;
  const { x, values } = useMemo(() => pointsOf(points ?? [], seen, since), [points, seen, since]);
  const series = useMemo(
    () => [{ label: "Value", values, token: "--c1" }, ...thresholdLines(monitor.thresholds, x)],
    [monitor.thresholds, x, values],
  );
  const marks = useMemo(() => marksOf(alarms, x), [alarms, x]);
  if (!points) return <Skeleton height={260} />;
  return (
    <>
      <fieldset class="row monitors-spans" aria-label="Time">
        {Object.keys(SPANS).map((each) => (
          <button
            key={each}
            type="button"
            class="btn quiet"
            aria-pressed={each === span}
            onClick={() => setQuery({ span: each })}
          >
            {each}
          </button>
        ))}
      </fieldset>
      {x.length < 2 || values.every((each) => each === null) ? (
        <p class="muted monitors-wait">
          {x.length < 2
            ? "The curve begins with the second measurement."
            : "Nothing was measured in this time. The figure appears with the first observation."}
        </p>
      ) : (
        <Chart
          label={`Value of ${monitor.name} over time`}
          x={x}
          series={series}
          marks={marks}
          kind="time"
          height={220}
          yLabel={METRICS[monitor.metric].hint}
          format={(value) => inUnit(value, monitor.unit)}
        />
      )}
    </>
  );
}

/** The beginnings of alarms, within the curve. */
const marksOf = (alarms: readonly Alarm[], x: readonly number[]): Mark[] =>
  alarms.flatMap(({ began, severity }) => {
    const at = Date.parse(began ?? "") / 1000;
    const isShown = at >= (x[0] ?? 0) && at <= (x.at(-1) ?? 0);
    return isShown ? [{ x: at, label: severity, token: severity === "alert" ? "--bad" : "--warn" }] : [];
  });

/** Values that came while the page is open: the server keeps one of each minute. */
function useSeen({ evaluated_at: at, value }: Monitor): readonly Point[] {
  const seen = useRef<Point[]>([]);
  const isNew = at !== null && seen.current.at(-1)?.[0] !== Date.parse(at) / 1000;
  if (isNew) seen.current = [...seen.current, [Date.parse(at) / 1000, value] as const].slice(-MOST_SEEN);
  return seen.current;
}

/** Thresholds as dashed lines. */
export function thresholdLines(
  { alert, warning }: Pick<Monitor["thresholds"], "alert" | "warning">,
  x: readonly number[],
): Series[] {
  const line = (label: string, limit: number | null, token: string) =>
    limit === null ? [] : [{ label, values: x.map(() => limit), token, dashed: true }];
  return [...line("Alert", alert, "--bad"), ...line("Warning", warning, "--warn")];
}
