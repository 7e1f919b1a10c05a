import type { ExperimentSummary } from "../../../resources/quality/experiments/results_schema.ts";
import type { Experiment } from "../../../resources/quality/experiments/schema.ts";
import { count, duration, number, percent, plural } from "../../data/format.ts";
import { Card } from "../../kit/card.tsx";
import { Chart } from "../../kit/chart/chart.tsx";
import { Table } from "../../kit/table.tsx";
import { chartOf, type Figures, intervalText, pValue } from "./scale.ts";

/** One chart and one table for each evaluator. */
export const Summary = ({ summary, experiment }: { summary: ExperimentSummary; experiment: Experiment }) => (
  <>
    {experiment.evaluators.map(({ name }, i) => (
      <Evaluator key={name} name={name} index={i} summary={summary} />
    ))}
    <Speed summary={summary} />
  </>
);

const CHART_PX = 210;

function Evaluator({ name, index, summary }: { name: string; index: number; summary: ExperimentSummary }) {
  const rows = summary.targets.flatMap(({ target, evaluators }) => {
    const figures = evaluators[index];
    return figures ? [{ target, figures }] : [];
  });
  const hasPassed = rows.some(({ figures }) => figures.pass_rate !== null);
  return (
    <Card title={name} note={verdict(summary, name)}>
      {rows.some(({ figures }) => figures.mean !== null) && (
        <Chart {...chartOf(name, rows, summary.baseline)} height={CHART_PX} />
      )}
      <div class="scroll">
        <table class="experiments-table">
          <caption class="hidden">{`Scores by ${name}`}</caption>
          <thead>
            <tr>
              <th scope="col">Target</th>
              <th scope="col" class="n">
                Mean
              </th>
              <th scope="col" class="n">
                95 % interval
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
                <td class="n">{figures.mean === null ? <span class="muted">No score</span> : number(figures.mean)}</td>
                <td class="n">{intervalText(figures)}</td>
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
