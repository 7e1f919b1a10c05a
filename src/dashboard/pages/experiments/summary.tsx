import type { ExperimentSummary } from "../../../resources/quality/experiments/results_schema.ts";
import type { Experiment } from "../../../resources/quality/experiments/schema.ts";
import { count, duration, number, percent, plural } from "../../data/format.ts";
import { Card } from "../../kit/card.tsx";
import { Table } from "../../kit/table.tsx";
import { type Figures, placeOf, pValue, type Scale, scaleOf } from "./scale.ts";

/** One table for each evaluator: the targets below each other on one axis. */
export const Summary = ({ summary, experiment }: { summary: ExperimentSummary; experiment: Experiment }) => (
  <>
    {experiment.evaluators.map(({ name }, i) => (
      <Evaluator key={name} name={name} index={i} summary={summary} />
    ))}
    <Speed summary={summary} />
  </>
);

function Evaluator({ name, index, summary }: { name: string; index: number; summary: ExperimentSummary }) {
  const rows = summary.targets.flatMap(({ target, evaluators }) => {
    const figures = evaluators[index];
    return figures ? [{ target, figures }] : [];
  });
  const scale = scaleOf(rows.map(({ figures }) => figures));
  const hasPassed = rows.some(({ figures }) => figures.pass_rate !== null);
  return (
    <Card title={name} note={verdict(summary, name)}>
      <div class="scroll">
        <table class="experiments-table">
          <caption class="hidden">{`Scores by ${name}`}</caption>
          <thead>
            <tr>
              <th scope="col">Target</th>
              <th scope="col" class="n">
                Mean
              </th>
              <th scope="col" class="experiments-axis">
                <span>{number(scale.low)}</span> 95 % interval <span>{number(scale.high)}</span>
              </th>
              {hasPassed && (
                <th scope="col" class="n wide">
                  Passed
                </th>
              )}
              <th scope="col">Against {summary.baseline}</th>
            </tr>
          </thead>
          <tbody>
            {rows.map(({ target, figures }) => (
              <tr key={target}>
                <td>{target}</td>
                <td class="n">{number(figures.mean)}</td>
                <td class="experiments-axis">
                  <Interval figures={figures} scale={scale} isBaseline={target === summary.baseline} />
                </td>
                {hasPassed && <td class="n wide">{percent(figures.pass_rate)}</td>}
                <td>
                  <Comparison figures={figures} isBaseline={target === summary.baseline} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Card>
  );
}

function verdict({ winners, status }: ExperimentSummary, evaluator: string): string {
  if (status === "queued" || status === "running") return "not finished yet";
  const winner = winners[evaluator];
  return winner ? `${winner} is better` : "no difference is significant";
}

function Interval({ figures, scale, isBaseline }: { figures: Figures; scale: Scale; isBaseline: boolean }) {
  const { mean, ci_low: low, ci_high: high } = figures;
  if (mean === null) return <span class="muted">No score</span>;
  const words =
    low === null || high === null ? number(mean) : `${number(mean)}, between ${number(low)} and ${number(high)}`;
  return (
    <span class={`experiments-interval ${isBaseline ? "base" : ""}`} role="img" aria-label={words} title={words}>
      {low !== null && high !== null && (
        <i style={{ left: `${placeOf(scale, low)}%`, width: `${placeOf(scale, high) - placeOf(scale, low)}%` }} />
      )}
      <b style={{ left: `${placeOf(scale, mean)}%` }} />
    </span>
  );
}

function Comparison({ figures, isBaseline }: { figures: Figures; isBaseline: boolean }) {
  const { comparison: c } = figures;
  if (isBaseline) return <span class="muted">Baseline</span>;
  if (!c) return <span class="muted">No row in common</span>;
  const tone = !c.significant ? "muted" : c.mean_difference > 0 ? "good" : "bad";
  return (
    <span class="experiments-comparison">
      <b class={`n ${tone}`}>
        {c.mean_difference > 0 ? "+" : ""}
        {number(c.mean_difference)}
      </b>
      <small>
        p {pValue(c.p_value)} · {count(c.wins)} better, {count(c.losses)} worse, {plural(c.ties, "tie")}
      </small>
    </span>
  );
}

const Speed = ({ summary }: { summary: ExperimentSummary }) => {
  if (summary.targets.every(({ latency_ms_p50, errors }) => latency_ms_p50 === null && errors === 0)) return null;
  const seconds = (ms: number | null) => duration(ms === null ? null : ms / 1000);
  return (
    <Card title="Speed and tokens">
      <Table
        label="Speed and tokens"
        rows={summary.targets}
        keyOf={({ target }) => target}
        columns={[
          { title: "Target", cell: ({ target }) => target },
          { title: "Latency p50", cell: (each) => seconds(each.latency_ms_p50), numeric: true },
          { title: "Latency p95", cell: (each) => seconds(each.latency_ms_p95), numeric: true },
          { title: "Tokens in", cell: (each) => count(each.prompt_tokens), numeric: true, wide: true },
          { title: "Tokens out", cell: (each) => count(each.completion_tokens), numeric: true, wide: true },
          {
            title: "Errors",
            cell: ({ errors }) => <span class={errors > 0 ? "bad" : ""}>{count(errors)}</span>,
            numeric: true,
          },
        ]}
      />
    </Card>
  );
};
