/** The same curve of several runs in one chart. */
import { useMemo } from "preact/hooks";
import { Card } from "../../../kit/card.tsx";
import { Chart } from "../../../kit/chart/chart.tsx";
import { Empty } from "../../../kit/page.tsx";
import { type Axis, columnsOf, curveOf, joined, positionsOf, startOf } from "../series.ts";
import type { TrainingJob } from "../types.ts";
import { WhenSeen } from "../when_seen.tsx";
import { CURVES, type Run } from "./runs.ts";

const UNITS: Readonly<Record<Axis, string>> = { step: "step", time: "time", tokens: "tokens", samples: "samples" };

const CHART_PX = 220;

type OverlayProps = { runs: readonly Run[]; axis: Axis };

export function Overlay({ runs, axis }: OverlayProps) {
  const positions = useMemo(() => runs.map(({ job, points }) => positionsOf(points, axis, startOf(job))), [runs, axis]);
  const shown = CURVES.filter(([key]) => runs.some(({ points }) => columnsOf(points).has(key)));
  if (shown.length === 0) return <Empty title="No curves yet">None of these runs has finished a step.</Empty>;
  return (
    <div class="grid half runs-overlay">
      {shown.map(([key, title]) => (
        <Card key={key} title={title}>
          <WhenSeen height={CHART_PX}>
            <Curves curve={key} title={title} runs={runs} axis={axis} positions={positions} />
          </WhenSeen>
        </Card>
      ))}
    </div>
  );
}

type CurvesProps = OverlayProps & { curve: string; title: string; positions: readonly (readonly number[])[] };

function Curves({ curve, title, runs, axis, positions }: CurvesProps) {
  const { x, series } = useMemo(() => {
    const having = runs.flatMap((run, i) => {
      const line = curveOf(run.points, curve, positions[i] ?? []);
      return line ? [{ run, line }] : [];
    });
    const { x, columns } = joined(having.map(({ line }) => line));
    const lineOf = ({ job, token }: Run, i: number) => ({ label: labelOf(job, runs), values: columns[i] ?? [], token });
    return { x, series: having.map(({ run }, i) => lineOf(run, i)) };
  }, [runs, curve, positions]);
  const label = `${title} by ${UNITS[axis]}`;
  return (
    <Chart
      key={axis} // its axis is written in another way
      label={label}
      x={x}
      series={series}
      height={CHART_PX}
      xLabel={UNITS[axis]}
      kind={axis === "time" ? "span" : "number"}
      sync={`compare ${axis}`}
    />
  );
}

/** Runs of the same name are told apart by the end of their id. */
export const labelOf = ({ id, output_name: name }: TrainingJob, runs: readonly Run[]): string =>
  runs.filter(({ job }) => job.output_name === name).length > 1 ? `${name} ${id.slice(-4)}` : name;
