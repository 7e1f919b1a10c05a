/** Figures and answer times of the newest deliveries. */
import { useMemo } from "preact/hooks";
import type { Delivery } from "../../../resources/watching/webhooks/schema.ts";
import { duration, NONE, percent } from "../../data/format.ts";
import { Card, Stat } from "../../kit/card.tsx";
import { Chart } from "../../kit/chart/chart.tsx";
import { setQuery } from "../../shell/router.ts";
import { figuresOf } from "./figures.ts";

const ms = (value: number | undefined) => (value === undefined ? NONE : duration(value / 1000));

export function Overview({ deliveries }: { deliveries: readonly Delivery[] }) {
  const figures = useMemo(() => figuresOf(deliveries), [deliveries]);
  const { delivered, waiting, lost, share, half, slow, x, good, bad, ids } = figures;
  const series = useMemo(
    () => [
      { label: "Delivered", values: good, token: "--good", dots: true },
      { label: "Not delivered", values: bad, token: "--bad", dots: true },
    ],
    [figures],
  );
  return (
    <>
      <div class="grid stats webhooks-stats">
        <Stat
          label={`Delivered, of the newest ${deliveries.length}`}
          value={percent(share)}
          change={share === undefined ? undefined : `${delivered} of ${delivered + lost}`}
          tone={lost === 0 ? "good" : "bad"}
        />
        <Stat label="Waiting" value={waiting} />
        <Stat label="Half of the answers within" value={ms(half)} />
        <Stat label="95 % of the answers within" value={ms(slow)} />
      </div>
      {x.length > 1 && (
        <Card title="Answer times" note="one point for each attempt; choose a point to open its delivery">
          <Chart
            label="Answer times of the attempts"
            kind="time"
            x={x}
            series={series}
            yLabel="answer time"
            format={(value) => duration(value / 1000)}
            height={150}
            onPick={(at) => setQuery({ delivery: ids[at] })}
          />
        </Card>
      )}
    </>
  );
}
