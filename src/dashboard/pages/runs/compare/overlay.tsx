/** The same curve of several runs in one chart. */
import { Card } from "../../../kit/card.tsx";
import { Chart } from "../../../kit/chart/chart.tsx";
import { Empty } from "../../../kit/page.tsx";
import { type Axis, endsOf, joined, pointsWith, positionsOf, valuesOf } from "../series.ts";
import type { Point, TrainingJob } from "../types.ts";

export type Run = { job: TrainingJob; points: readonly Point[]; token: string };

const UNITS: Readonly<Record<Axis, string>> = { step: "step", time: "seconds", tokens: "tokens" };
const CURVES: readonly (readonly [key: string, title: string])[] = [
  ["reward", "Reward"],
  ["eval_reward", "Reward on held-out rows"],
  ["loss", "Loss"],
  ["kl", "KL to base"],
  ["entropy", "Entropy"],
  ["grad_norm", "Gradient norm"],
  ["completions/mean_length", "Length in tokens"],
  ["completions/clipped_ratio", "Share cut off"],
  ["mean_token_accuracy", "Token accuracy"],
  ["rewards/margins", "Reward margin"],
  ["tokens_per_second", "Tokens a second"],
];

export function Overlay({ runs, axis }: { runs: readonly Run[]; axis: Axis }) {
  const shown = CURVES.filter(([key]) => runs.some(({ points }) => endsOf(points, key)));
  if (shown.length === 0) return <Empty title="No curves yet">None of these runs has finished a step.</Empty>;
  return (
    <div class="grid half">
      {shown.map(([key, title]) => (
        <Card key={key} title={title}>
          <Curves curve={key} title={title} runs={runs} axis={axis} />
        </Card>
      ))}
    </div>
  );
}

function Curves({ curve, title, runs, axis }: { curve: string; title: string; runs: readonly Run[]; axis: Axis }) {
  const having = runs.filter(({ points }) => endsOf(points, curve));
  const { x, columns } = joined(
    having.map(({ job, points }) => {
      const shown = pointsWith(points, axis === "tokens" ? [curve, "num_tokens"] : [curve]);
      return { x: positionsOf(shown, axis, job.started_at), values: valuesOf(shown, curve) };
    }),
  );
  const series = having.map(({ job, token }, i) => ({
    label: labelOf(job, runs),
    values: columns[i] ?? [],
    token,
  }));
  return (
    <Chart
      label={`${title} by ${UNITS[axis]}`}
      x={x}
      series={series}
      height={220}
      xLabel={UNITS[axis]}
      sync={`compare ${axis}`}
    />
  );
}

/** Runs of the same name are told apart by the end of their id. */
export const labelOf = ({ id, output_name: name }: TrainingJob, runs: readonly Run[]): string =>
  runs.filter(({ job }) => job.output_name === name).length > 1 ? `${name} ${id.slice(-4)}` : name;
