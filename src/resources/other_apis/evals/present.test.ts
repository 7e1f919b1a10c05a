import { expect, test } from "bun:test";
import type { ExperimentRow, ItemRow, ScoreRow } from "../../quality/experiments/table.ts";
import { present, presentItem, presentRun, type Result } from "./present.ts";
import type { EvalRow, EvalRunRow } from "./table.ts";

const check = (name: string) =>
  ({ type: "string_check", name, input: "{{sample.output_text}}", reference: "2", operation: "eq" }) as const;
const parent: EvalRow = {
  id: "eval_1",
  workspaceId: "ws_1",
  name: "sums",
  dataSourceConfig: { type: "custom", item_schema: { type: "object" }, include_sample_schema: true },
  testingCriteria: [check("a"), check("b")],
  evaluators: ["evl_1"],
  metadata: { of: "test" },
  createdAt: 5_000,
};
const run = (dataSource: object) => ({ id: "exp_1", evalId: "eval_1", dataSource, createdAt: 6_000 }) as EvalRunRow;
const COMPLETIONS = { type: "completions", model: "verk-tiny" };
const JSONL = { type: "jsonl" };
const experiment = (more: Partial<ExperimentRow> = {}) =>
  ({
    name: "run",
    status: "running",
    rowCount: 4,
    error: null,
    errorCode: null,
    metadata: {},
    ...more,
  }) as ExperimentRow;
const NOTHING: Result = { byCriterion: [], passed: 0, failed: 0, errored: 0 };

test("an eval names the evaluator of each criterion", () => {
  const { testing_criteria: criteria, created_at, metadata } = present(parent);
  expect(criteria.map(({ id, name }) => [id, name])).toEqual([
    ["evl_1", "a"],
    ["", "b"],
  ]);
  expect([created_at, metadata]).toEqual([5, { of: "test" }]);
});

test.each([
  ["queued", "queued"],
  ["running", "in_progress"],
  ["completed", "completed"],
  ["failed", "failed"],
  ["cancelled", "canceled"],
] as const)("an experiment that is %s is a run that is %s", (status, shown) => {
  expect(presentRun({ parent, run: run(COMPLETIONS), experiment: experiment({ status }) }, NOTHING).status).toBe(shown);
});

test("a run counts its rows and the results of each criterion", () => {
  const result = { byCriterion: [{ evaluator: 1, passed: 1, count: 3 }], passed: 1, failed: 2, errored: 1 };
  const shown = presentRun({ parent, run: run(COMPLETIONS), experiment: experiment() }, result);
  expect(shown).toMatchObject({
    model: "verk-tiny",
    result_counts: { total: 4, errored: 1, failed: 2, passed: 1 },
    per_testing_criteria_results: [
      { testing_criteria: "a", passed: 0, failed: 0 },
      { testing_criteria: "b", passed: 1, failed: 2 },
    ],
    error: null,
  });
  const failed = experiment({ status: "failed", error: "no space" });
  expect(presentRun({ parent, run: run(JSONL), experiment: failed }, result)).toMatchObject({
    model: "",
    error: { code: "error", message: "no space" },
  });
});

const score = (evaluator: number, passed: boolean | null) => ({ evaluator, score: 1, passed }) as ScoreRow;
const item = (more: Partial<ItemRow> = {}) =>
  ({
    id: "item_1",
    rowId: 3,
    input: "1+1",
    reference: '{"answer":"2"}',
    output: "2",
    promptTokens: 7,
    completionTokens: 2,
    error: null,
    errorCode: null,
    createdAt: 9_000,
    ...more,
  }) as ItemRow;
const shownItem = (row: ItemRow, scores: ScoreRow[], source: object = COMPLETIONS) =>
  presentItem({ parent, run: run(source), experiment: experiment() }, row, scores);

test("an item passes if every criterion has passed", () => {
  const both = [score(0, true), score(1, true)];
  expect(shownItem(item(), both)).toMatchObject({
    status: "pass",
    datasource_item_id: 3,
    datasource_item: { answer: "2" },
    results: [
      { name: "a", score: 1, passed: true },
      { name: "b", score: 1, passed: true },
    ],
    sample: {
      input: [{ role: "user", content: "1+1" }],
      output: [{ role: "assistant", content: "2" }],
      error: null,
      usage: { prompt_tokens: 7, completion_tokens: 2, total_tokens: 9 },
    },
    created_at: 9,
  });
  for (const scores of [[score(0, true), score(1, false)], [score(0, true), score(1, null)], [score(0, true)], []])
    expect(shownItem(item(), scores).status).toBe("fail");
  expect(
    shownItem(item({ error: "cut off", errorCode: "timeout", output: null, promptTokens: null }), both),
  ).toMatchObject({
    status: "error",
    sample: {
      output: [],
      error: { code: "timeout", message: "cut off" },
      usage: { prompt_tokens: 0, total_tokens: 2 },
    },
  });
});

test("the input of an item is shown as messages, unless its answer was in the file", () => {
  const talk = [
    { role: "system", content: "Be kind" },
    { role: "user", content: null },
  ] as ItemRow["input"];
  expect(shownItem(item({ input: talk, reference: null }), [])).toMatchObject({
    datasource_item: {},
    sample: {
      input: [
        { role: "system", content: "Be kind" },
        { role: "user", content: "" },
      ],
    },
  });
  expect(shownItem(item(), [], JSONL).sample.input).toEqual([]);
});
