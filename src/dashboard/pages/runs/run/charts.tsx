/** The curves of a run, with its alarms as marks. A click on a curve opens the samples of that step. */
import { useMemo } from "preact/hooks";
import { number, plural } from "../../../data/format.ts";
import { Card } from "../../../kit/card.tsx";
import { Chart } from "../../../kit/chart/chart.tsx";
import type { Mark } from "../../../kit/chart/series.ts";
import { Skeleton } from "../../../kit/page.tsx";
import { Pill } from "../../../kit/pill.tsx";
import { setQuery } from "../../../shell/router.ts";
import {
  type Alarm,
  constantOf,
  mainPlot,
  type Plot,
  type PlotSpec,
  panelsFor,
  plotOf,
  shortAlarm,
} from "../panels.ts";
import type { Point } from "../types.ts";
import { WhenSeen } from "../when_seen.tsx";

const MAIN_PX = 260;
const SMALL_PX = 150;

type ChartsProps = { points: readonly Point[]; alarms: readonly Alarm[]; isEnded: boolean };

/** The large curve with the list of alarms. */
export function MainChart({ points, alarms, isEnded }: ChartsProps) {
  const main = useMemo(() => mainPlot(points), [points]);
  const marks = useMemo(() => alarms.map(({ step, type }) => ({ x: step, label: shortAlarm(type) })), [alarms]);
  if (!main) return isEnded ? <NoCurve /> : <Waiting />;
  return (
    <Card
      title={main.title}
      note={main.bandLabel && `band: ${main.bandLabel}`}
      side={alarms.length > 0 && <Pill tone="warn">{plural(alarms.length, "alarm")}</Pill>}
    >
      <Curve plot={main} marks={marks} height={MAIN_PX} />
      <Alarms alarms={alarms} />
    </Card>
  );
}

/** The small curves in their groups. */
export function Panels({ points, alarms }: Omit<ChartsProps, "isEnded">) {
  const panels = useMemo(() => panelsFor(points), [points]);
  const marks = useMemo(() => alarms.map(({ step }) => ({ x: step, label: "" })), [alarms]);
  return (
    <>
      {panels.map(({ title, plots, missing }) => (
        <Card key={title} title={title}>
          {plots.length === 0 && <p class="muted">{missing}</p>}
          <div class="runs-plots">
            {plots.map((spec) => (
              <div key={spec.title}>
                {spec.title !== title && <h3>{spec.title}</h3>}
                <WhenSeen height={SMALL_PX}>
                  <Small spec={spec} points={points} marks={marks} />
                </WhenSeen>
              </div>
            ))}
          </div>
        </Card>
      ))}
    </>
  );
}

type SmallProps = { spec: PlotSpec; points: readonly Point[]; marks: readonly Mark[] };

function Small({ spec, points, marks }: SmallProps) {
  const plot = useMemo(() => plotOf(spec, points), [spec, points]);
  if (!plot) return null;
  const constant = constantOf(plot);
  if (constant !== undefined)
    return (
      <p class="runs-flat" style={{ height: `${SMALL_PX}px` }}>
        <b class="n">{number(constant)}</b> in every step
      </p>
    );
  return (
    <>
      <Curve plot={plot} marks={marks} height={SMALL_PX} />
      {plot.bandLabel && <small>{`band: ${plot.bandLabel}`}</small>}
    </>
  );
}

type CurveProps = { plot: Plot; marks: readonly Mark[]; height: number };

const Curve = ({ plot: { title, x, series }, marks, height }: CurveProps) => (
  <Chart
    label={`${title} by step`}
    x={x}
    series={series}
    marks={marks}
    height={height}
    xLabel="step"
    sync="run"
    onPick={(index) => setQuery({ step: x[index] })}
  />
);

const Alarms = ({ alarms }: { alarms: readonly Alarm[] }) =>
  alarms.length === 0 ? null : (
    <ul class="runs-alarms">
      {alarms.map(({ step, type, message }) => (
        <li key={`${step}${type}`}>
          <button type="button" class="plain warn" onClick={() => setQuery({ step })}>
            {`step ${step}`}
          </button>
          <span>{message}</span>
        </li>
      ))}
    </ul>
  );

const NoCurve = () => (
  <Card title="Curves">
    <p class="muted">The run ended before its first step, so it has no curves.</p>
  </Card>
);

/** It has the height of the curve that follows, so that nothing moves when the curve comes. */
const Waiting = () => (
  <Card title="Curves" note="they begin with the first step">
    <Skeleton height={MAIN_PX} />
  </Card>
);
