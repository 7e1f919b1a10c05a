/** The same curve of several runs in one chart. */
import { useMemo } from "preact/hooks";
import { Card } from "../../../kit/card.tsx";
import { Chart } from "../../../kit/chart/chart.tsx";
import type { AxisKind } from "../../../kit/chart/series.ts";
import { Empty } from "../../../kit/page.tsx";
import type { CurveStyle } from "../curve_style.tsx";
import { type Axis, columnsOf, curveOf, joined, positionsOf, startOf } from "../series.ts";
import type { TrainingJob } from "../types.ts";
import { WhenSeen } from "../when_seen.tsx";
import { type CurveSpec, type Run, titleOf } from "./runs.ts";

const KINDS: Readonly<Record<Axis, AxisKind>> = { step: "number", time: "span", tokens: "number", samples: "number" };

const CHART_PX = 240;

type OverlayProps = { runs: readonly Run[]; axis: Axis; curveStyle: CurveStyle; curves: readonly CurveSpec[] };

export function Overlay({ runs, axis, curveStyle, curves }: OverlayProps) {
  const positions = useMemo(() => runs.map(({ job, points }) => positionsOf(points, axis, startOf(job))), [runs, axis]);
  const shown = curves.filter((key) => runs.some(({ points }) => columnsOf(points).has(key)));
  if (shown.length === 0)
    return <Empty title="No curves yet">None of these runs has finished a step with one of the chosen metrics.</Empty>;
  return (
    <div class="grid half runs-overlay">
      {shown.map((key) => (
        <Card key={key} title={titleOf(key)}>
          <WhenSeen height={CHART_PX}>
            <Curves curve={key} runs={runs} axis={axis} curveStyle={curveStyle} positions={positions} />
          </WhenSeen>
        </Card>
      ))}
    </div>
  );
}

type CurvesProps = Omit<OverlayProps, "curves"> & { curve: string; positions: readonly (readonly number[])[] };

function Curves({ curve, runs, axis, curveStyle, positions }: CurvesProps) {
  const { x, series } = useMemo(() => {
    const having = runs.flatMap((run, i) => {
      const line = curveOf(run.points, curve, positions[i] ?? []);
      return line ? [{ run, line }] : [];
    });
    const { x, columns } = joined(having.map(({ line }) => line));
    const lineOf = ({ job, token }: Run, i: number) => ({ label: labelOf(job, runs), values: columns[i] ?? [], token });
    return { x, series: having.map(({ run }, i) => lineOf(run, i)) };
  }, [runs, curve, positions]);
  return (
    <Chart
      label={`${titleOf(curve)} by ${axis}`}
      x={x}
      series={series}
      height={CHART_PX}
      xLabel={axis}
      kind={KINDS[axis]}
      log={curveStyle.log}
      smoothing={curveStyle.smoothing}
      sync={`compare ${axis}`}
    />
  );
}

/** Runs of the same name are told apart by the end of their id. */
export const labelOf = ({ id, output_name: name }: TrainingJob, runs: readonly Run[]): string =>
  runs.filter(({ job }) => job.output_name === name).length > 1 ? `${name} ${id.slice(-4)}` : name;
