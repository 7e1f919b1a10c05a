/** The curves of a run, with its alarms as marks. A click on a curve opens the samples of that step. */
import { useEffect } from "preact/hooks";
import { plural } from "../../../data/format.ts";
import { Card } from "../../../kit/card.tsx";
import { Chart } from "../../../kit/chart/chart.tsx";
import { Skeleton } from "../../../kit/page.tsx";
import { setQuery } from "../../../shell/router.ts";
import { type Alarm, mainPlot, type Plot, panelsOf, rewardParts, shortAlarm } from "../panels.ts";
import type { Point } from "../types.ts";

const MAIN_PX = 260;
const SMALL_PX = 150;

type ChartsProps = { points: readonly Point[]; alarms: readonly Alarm[]; isEnded: boolean };

export function Charts({ points, alarms, isEnded }: ChartsProps) {
  performance.mark("runs.draw");
  useEffect(() => {
    // after uPlot has drawn, which it does in a microtask of this frame
    const frame = requestAnimationFrame(() => performance.measure("runs.draw", "runs.draw"));
    return () => cancelAnimationFrame(frame);
  }, [points]);
  const main = mainPlot(points);
  if (!main) return <Card title="Curves">{isEnded ? <NoCurve /> : <Waiting />}</Card>;
  const parts = rewardParts(points);
  return (
    <>
      <Card
        title={main.title}
        note={main.bandLabel && `band: ${main.bandLabel}`}
        side={alarms.length > 0 && <small class="warn">{plural(alarms.length, "alarm")}</small>}
      >
        <Curve plot={main} alarms={alarms} height={MAIN_PX} named />
        <Alarms alarms={alarms} />
      </Card>
      <div class="grid half">
        {parts && (
          <Card title={parts.title}>
            <Curve plot={parts} alarms={[]} height={SMALL_PX} />
          </Card>
        )}
        {panelsOf(points).map(({ title, plots }) => (
          <Card key={title} title={title}>
            <div class="runs-plots">
              {plots.map((plot) => (
                <div key={plot.title}>
                  <h3>
                    {plot.title}
                    {plot.bandLabel && <small>{plot.bandLabel}</small>}
                  </h3>
                  <Curve plot={plot} alarms={alarms} height={SMALL_PX} />
                </div>
              ))}
            </div>
          </Card>
        ))}
      </div>
    </>
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

const NoCurve = () => <p class="muted">The run ended before its first step, so it has no curves.</p>;
const Waiting = () => (
  <div class="stack">
    <p class="muted">The curves begin with the first step.</p>
    <Skeleton height={MAIN_PX - 40} />
  </div>
);
