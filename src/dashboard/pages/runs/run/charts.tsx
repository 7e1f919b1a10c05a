/** The curves of a run, with its alarms as marks. A click on a curve opens the samples of that step. */
import { useMemo, useState } from "preact/hooks";
import { number, plural } from "../../../data/format.ts";
import { Arrange } from "../../../kit/arrange.tsx";
import { Button } from "../../../kit/button.tsx";
import { Card } from "../../../kit/card.tsx";
import { Chart, type ChartAction } from "../../../kit/chart/chart.tsx";
import type { Mark } from "../../../kit/chart/series.ts";
import { Skeleton } from "../../../kit/page.tsx";
import { Pill } from "../../../kit/pill.tsx";
import { setQuery } from "../../../shell/router.ts";
import { type Alarm, grouped, marksOf, shortAlarm } from "../alarms.ts";
import { type CurveStyle, StyleBar, styleOf } from "../curve_style.tsx";
import { constantOf, formatOf, mainPlot, type Plot, type PlotSpec, panelsFor, plotOf } from "../panels.ts";
import type { Point } from "../types.ts";
import { WhenSeen } from "../when_seen.tsx";
import { arrange, arrangement, hide, pin } from "./arrangement.ts";

const MAIN_PX = 270;
const SMALL_PX = 165;

type ChartsProps = { points: readonly Point[]; alarms: readonly Alarm[]; isEnded: boolean };

/** The large curve with the list of alarms. */
export function MainChart({ points, alarms, isEnded }: ChartsProps) {
  const main = useMemo(() => mainPlot(points), [points]);
  const marks = useMemo(() => marksOf(alarms), [alarms]);
  if (!main) return isEnded ? <NoCurve /> : <Waiting />;
  return (
    <Card
      title={main.title}
      note={main.bandLabel && `band: ${main.bandLabel}`}
      side={alarms.length > 0 && <Pill tone="warn">{plural(alarms.length, "alarm")}</Pill>}
    >
      <Curve plot={main} marks={marks} height={MAIN_PX} curveStyle={styleOf()} />
      <Alarms alarms={alarms} />
    </Card>
  );
}

/**
 * Smoothing and scale of all curves, and which of them are pinned or hidden. It is there before the first point, so that
 * nothing moves when that comes.
 */
export function ChartBar({ points, isEnded }: Omit<ChartsProps, "alarms">) {
  const [isArranging, setArranging] = useState(false);
  const specs = useMemo(() => panelsFor(points).flatMap(({ plots }) => plots), [points]);
  const chosen = arrangement();
  const hidden = specs.filter(({ title }) => chosen.hidden.includes(title));
  if (specs.length === 0 && isEnded) return null;
  return (
    <StyleBar curveStyle={styleOf()}>
      {hidden.length > 0 && (
        <Button kind="quiet" onClick={() => arrange({ ...chosen, hidden: [] })}>
          {`Show ${plural(hidden.length, "hidden chart")}`}
        </Button>
      )}
      <Button onClick={() => setArranging(true)} disabled={specs.length === 0}>
        Pin charts
      </Button>
      {isArranging && (
        <Arrange
          title="Pinned charts"
          choices={specs.map(({ title }) => ({ key: title, label: title }))}
          shown={chosen.pinned.filter((each) => specs.some(({ title }) => title === each))}
          initial={[]}
          onChange={(next) => arrange({ pinned: next, hidden: chosen.hidden.filter((each) => !next.includes(each)) })}
          onClose={() => setArranging(false)}
        />
      )}
    </StyleBar>
  );
}

/** The small curves: those that the reader has pinned, then the others in their groups. */
export function Panels({ points, alarms }: Omit<ChartsProps, "isEnded">) {
  const panels = useMemo(() => panelsFor(points), [points]);
  const marks = useMemo(() => alarms.map(({ step }) => ({ x: step, label: "" })), [alarms]);
  const chosen = arrangement();
  const specs = panels.flatMap(({ plots }) => plots);
  const pinned = chosen.pinned.flatMap((title) => specs.find((each) => each.title === title) ?? []);
  const others = panels
    .map((panel) => ({
      ...panel,
      isEmpty: panel.plots.length === 0,
      plots: panel.plots.filter(({ title }) => !chosen.pinned.includes(title) && !chosen.hidden.includes(title)),
    }))
    .filter(({ plots, isEmpty }) => isEmpty || plots.length > 0);
  const curveStyle = styleOf();
  const draw = (spec: PlotSpec, isNamed: boolean) => (
    <div key={spec.title}>
      {isNamed && <h3>{spec.title}</h3>}
      <WhenSeen height={SMALL_PX}>
        <Small spec={spec} points={points} marks={marks} curveStyle={curveStyle} />
      </WhenSeen>
    </div>
  );
  return (
    <>
      {pinned.length > 0 && (
        <Card title="Pinned">
          <div class="runs-plots wide">{pinned.map((spec) => draw(spec, true))}</div>
        </Card>
      )}
      {others.map(({ title, plots, missing }) => (
        <Card key={title} title={title}>
          {plots.length === 0 && <p class="muted">{missing}</p>}
          <div class="runs-plots">{plots.map((spec) => draw(spec, spec.title !== title))}</div>
        </Card>
      ))}
    </>
  );
}

type SmallProps = { spec: PlotSpec; points: readonly Point[]; marks: readonly Mark[]; curveStyle: CurveStyle };

function Small({ spec, points, marks, curveStyle }: SmallProps) {
  const plot = useMemo(() => plotOf(spec, points), [spec, points]);
  if (!plot) return null;
  const constant = constantOf(plot);
  if (constant !== undefined)
    return (
      <p class="runs-flat" style={{ height: `${SMALL_PX}px` }}>
        <b class="n">{number(constant)}</b> in every step
      </p>
    );
  const isPinned = arrangement().pinned.includes(spec.title);
  const actions = [
    { label: isPinned ? "Unpin" : "Pin to the top", onClick: () => arrange(pin(arrangement(), spec.title)) },
    { label: "Hide", onClick: () => arrange(hide(arrangement(), spec.title)) },
  ];
  return (
    <>
      <Curve plot={plot} marks={marks} height={SMALL_PX} curveStyle={curveStyle} actions={actions} />
      {plot.bandLabel && <small>{`band: ${plot.bandLabel}`}</small>}
    </>
  );
}

type CurveProps = {
  plot: Plot;
  marks: readonly Mark[];
  height: number;
  curveStyle: CurveStyle;
  actions?: readonly ChartAction[];
};

const Curve = ({ plot: { title, x, series, unit }, marks, height, curveStyle, actions }: CurveProps) => (
  <Chart
    label={`${title} by step`}
    x={x}
    series={series}
    marks={marks}
    height={height}
    xLabel="step"
    format={formatOf(unit)}
    sync="run"
    log={curveStyle.log}
    smoothing={curveStyle.smoothing}
    actions={actions}
    onPick={(index) => setQuery({ step: x[index] })}
  />
);

const MOST_STEPS = 24;

/** One line for each kind: "explores little: steps 71, 86, 90", and the newest advice. */
const Alarms = ({ alarms }: { alarms: readonly Alarm[] }) =>
  alarms.length === 0 ? null : (
    <ul class="runs-alarms">
      {grouped(alarms).map(({ type, steps, message }) => (
        <li key={type}>
          <p>
            <b class="warn">{shortAlarm(type)}</b>
            {`: ${steps.length === 1 ? "step" : "steps"} `}
            {steps.slice(0, MOST_STEPS).map((step, i) => (
              <span key={step}>
                {i > 0 && ", "}
                <button type="button" class="plain" aria-label={`Step ${step}`} onClick={() => setQuery({ step })}>
                  {step}
                </button>
              </span>
            ))}
            {steps.length > MOST_STEPS && ` and ${steps.length - MOST_STEPS} more`}
          </p>
          <span class="muted">{message}</span>
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
