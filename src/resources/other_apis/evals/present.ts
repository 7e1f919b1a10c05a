/** Evals, runs and their items as a client of OpenAI reads them. Pure. */
import type { ExperimentRow, ItemRow, ScoreRow } from "../../quality/experiments/table.ts";
import { seconds } from "../files/schema.ts";
import type { Eval, EvalOutputItem, EvalRun, RUN_STATUSES } from "./schema.ts";
import type { EvalRow, EvalRunRow } from "./table.ts";

export const present = (row: EvalRow): Eval => ({
  id: row.id,
  object: "eval",
  name: row.name,
  data_source_config: { type: "custom", schema: row.dataSourceConfig.item_schema },
  testing_criteria: row.testingCriteria.map((criterion, i) => ({ ...criterion, id: row.evaluators[i] ?? "" })),
  metadata: row.metadata,
  created_at: seconds(row.createdAt),
});

const STATUS: Record<ExperimentRow["status"], (typeof RUN_STATUSES)[number]> = {
  queued: "queued",
  running: "in_progress",
  completed: "completed",
  failed: "failed",
  cancelled: "canceled",
};

/** `byCriterion`: by the index of the criterion. */
export type Result = {
  byCriterion: { evaluator: number; passed: number; count: number }[];
  passed: number;
  failed: number;
  errored: number;
};
type Run = { parent: EvalRow; run: EvalRunRow; experiment: ExperimentRow };

const faultOf = (code: string | null, message: string | null) =>
  message === null ? null : { code: code ?? "error", message };

export function presentRun({ parent, run, experiment }: Run, result: Result): EvalRun {
  const { byCriterion, passed, failed, errored } = result;
  return {
    id: run.id,
    object: "eval.run",
    eval_id: parent.id,
    name: experiment.name,
    status: STATUS[experiment.status],
    model: run.dataSource.type === "jsonl" ? "" : run.dataSource.model,
    report_url: `/v1/experiments/${run.id}`,
    data_source: { ...run.dataSource },
    result_counts: { total: experiment.rowCount, errored, failed, passed },
    per_testing_criteria_results: parent.testingCriteria.map(({ name }, i) => {
      const counted = byCriterion.find(({ evaluator }) => evaluator === i);
      const good = counted?.passed ?? 0;
      return { testing_criteria: name, passed: good, failed: (counted?.count ?? 0) - good };
    }),
    per_model_usage: [],
    error: faultOf(experiment.errorCode, experiment.error),
    metadata: experiment.metadata,
    created_at: seconds(run.createdAt),
  };
}

const messagesOf = (input: ItemRow["input"]) =>
  typeof input === "string"
    ? [{ role: "user", content: input }]
    : input.map(({ role, content }) => ({ role, content: String(content ?? "") }));

export function presentItem({ parent, run }: Run, item: ItemRow, scores: readonly ScoreRow[]): EvalOutputItem {
  const results = scores.map(({ evaluator, score, passed }) => ({
    name: parent.testingCriteria[evaluator]?.name ?? "",
    score,
    passed: passed === true,
  }));
  const isPass = results.length === parent.testingCriteria.length && results.every(({ passed }) => passed);
  const [prompt_tokens, completion_tokens] = [item.promptTokens ?? 0, item.completionTokens ?? 0];
  return {
    id: item.id,
    object: "eval.run.output_item",
    eval_id: parent.id,
    run_id: run.id,
    status: item.error !== null ? "error" : isPass ? "pass" : "fail",
    datasource_item_id: item.rowId,
    datasource_item: JSON.parse(item.reference ?? "{}"),
    results,
    sample: {
      input: run.dataSource.type === "jsonl" ? [] : messagesOf(item.input),
      output: item.output === null ? [] : [{ role: "assistant", content: item.output }],
      error: faultOf(item.errorCode, item.error),
      usage: { prompt_tokens, completion_tokens, total_tokens: prompt_tokens + completion_tokens },
    },
    created_at: seconds(item.createdAt),
  };
}
