import type { CostByDay } from "../../../resources/money/cost/schema.ts";
import { count, money, number } from "../../data/format.ts";
import { Empty } from "../../kit/page.tsx";
import { Tabs, tabOf } from "../../kit/tabs.tsx";

type Day = CostByDay[number];
const MEASURES = {
  hours: ["Device hours", (day: Day) => day.gpu_hours + day.deployment_gpu_hours, (n: number) => `${number(n)} h`],
  cost: ["Cost", (day: Day) => day.cost_usd + day.deployment_cost_usd, money],
  energy: ["Energy", (day: Day) => day.energy_wh, (n: number) => `${number(n)} Wh`],
  runs: ["Runs", (day: Day) => day.job_count, count],
} as const;
type Measure = keyof typeof MEASURES;

const DAY_MS = 86_400_000;
/** Bars of more days are too thin to tell apart. */
const MOST_BARS = 90;

/** One bar for each day, days without use included. */
export function Days({ rows, days }: { rows: CostByDay; days: number }) {
  const chosen = tabOf("hours", "measure") as Measure;
  const [title, measure, show] = MEASURES[chosen] ?? MEASURES.hours;
  const byDay = new Map(rows.map((row) => [row.day, measure(row)]));
  const today = Math.floor(Date.now() / DAY_MS);
  const bars = Array.from({ length: Math.min(days, MOST_BARS) }, (_, i, n = Math.min(days, MOST_BARS)) => {
    const day = new Date((today - n + 1 + i) * DAY_MS).toISOString().slice(0, 10);
    return { day, value: byDay.get(day) ?? 0 };
  });
  const most = Math.max(...bars.map(({ value }) => value));
  return (
    <>
      <Tabs label="Measure" name="measure" tabs={Object.entries(MEASURES).map(([key, [shown]]) => [key, shown])} />
      {most === 0 ? (
        <Empty title={`${title}: nothing in this period`}>Training runs and deployments appear here.</Empty>
      ) : (
        <figure class="usage-days">
          <div role="img" aria-label={`${title} by day; the highest is ${show(most)}`}>
            {bars.map(({ day, value }) => (
              <i key={day} title={`${day}: ${show(value)}`} style={{ height: `${(value / most) * 100}%` }} />
            ))}
          </div>
          <figcaption class="muted n">
            <span>{bars[0]?.day}</span>
            <span>{`highest ${show(most)}`}</span>
            <span>{bars.at(-1)?.day}</span>
          </figcaption>
        </figure>
      )}
    </>
  );
}
