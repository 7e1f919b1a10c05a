/** The curves of a run, with its alarms as marks. A click on a curve opens the samples of that step. */
import { useMemo } from "preact/hooks";
import { number, plural } from "../../../data/format.ts";
import { Card } from "../../../kit/card.tsx";
import { Chart } from "../../../kit/chart/chart.tsx";
import { Skeleton } from "../../../kit/page.tsx";
import { Pill } from "../../../kit/pill.tsx";
import { setQuery } from "../../../shell/router.ts";
import { type Alarm, constantOf, mainPlot, type Plot, panelsOf, rewardParts, shortAlarm } from "../panels.ts";
import type { Point } from "../types.ts";
import { WhenSeen } from "./when_seen.tsx";

const MAIN_PX = 260;
const SMALL_PX = 150;

type ChartsProps = { points: readonly Point[]; alarms: readonly Alarm[]; isEnded: boolean };

/** The large curve with the list of alarms. */
export function MainChart({ points, alarms, isEnded }: ChartsProps) {
  const main = useMemo(() => mainPlot(points), [points]);
  if (!main) return isEnded ? <NoCurve /> : <Waiting />;
  return (
    <Card
      title={main.title}
      note={main.bandLabel && `band: ${main.bandLabel}`}
      side={alarms.length > 0 && <Pill tone="warn">{plural(alarms.length, "alarm")}</Pill>}
    >
      <Curve plot={main} alarms={alarms} height={MAIN_PX} named />
      <Alarms alarms={alarms} />
    </Card>
  );
}

/** The small curves in their groups. */
export function Panels({ points, alarms }: Omit<ChartsProps, "isEnded">) {
  const all = useMemo(() => {
    const parts = rewardParts(points);
    return [...(parts ? [{ title: "Reward parts", plots: [parts] }] : []), ...panelsOf(points)];
  }, [points]);
  return (
    <>
      {all.map(({ title, plots }) => (
        <Card key={title} title={title}>
          <div class="runs-plots">
            {plots.map((plot) => (
              <div key={plot.title}>
                <h3>{plot.title}</h3>
                <Small plot={plot} alarms={alarms} />
                <small>{plot.bandLabel && constantOf(plot) === undefined ? `band: ${plot.bandLabel}` : ""}</small>
              </div>
            ))}
          </div>
        </Card>
      ))}
    </>
  );
}

function Small({ plot, alarms }: { plot: Plot; alarms: readonly Alarm[] }) {
  const constant = constantOf(plot);
  if (constant !== undefined)
    return (
      <p class="runs-flat" style={{ height: `${SMALL_PX}px` }}>
        <b class="n">{number(constant)}</b> in every step
      </p>
    );
  return (
    <WhenSeen height={SMALL_PX}>
      <Curve plot={plot} alarms={alarms} height={SMALL_PX} />
    </WhenSeen>
  );
}

type CurveProps = { plot: Plot; alarms: readonly Alarm[]; height: number; named?: boolean };

const Curve = ({ plot: { title, x, series }, alarms, height, named = false }: CurveProps) => (
  <Chart
    label={`${title} by step`}
    x={x}
    series={series}
    marks={alarms.map(({ step, type }) => ({ x: step, label: named ? shortAlarm(type) : "" }))}
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
