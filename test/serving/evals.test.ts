// tier: all (serves models)
/** The `openai` client with evals, unchanged, against the executable. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { rmSync } from "node:fs";
import OpenAI, { toFile } from "openai";
import { tempDir, until } from "../harness.ts";
import { recordedModel } from "./recorded_model.ts";
import { startServing } from "./served.ts";

let server: Awaited<ReturnType<typeof startServing>>;
let openai: OpenAI;
/** Without types: those of the client are too deep for the compiler. */
// biome-ignore lint/suspicious/noExplicitAny: a test reads whatever the server answered
let evals: any;
// biome-ignore lint/suspicious/noExplicitAny: likewise
type Json = any;
const LABEL = '{"reason": "It is right.", "label": "good"}';
const SCORE = '{"reason": "It is short.", "score": 3}';
beforeAll(async () => {
  const made = [tempDir(), tempDir()] as const;
  const files = { labeller: recordedModel(made[0], [LABEL]), scorer: recordedModel(made[1], [SCORE]) };
  server = await startServing({ files });
  for (const dir of made) rmSync(dir, { recursive: true });
  for (const model of Object.keys(files)) await server.deploy({ model, name: model, context_length: 4096 });
  await server.deploy({ model: "verk-tiny", name: "tiny", parallel: 4, context_length: 512 });
  openai = new OpenAI({ apiKey: server.key, baseURL: `${server.url}/v1`, maxRetries: 0 });
  evals = openai.evals;
}, 120_000);
afterAll(() => server?.stop());

const item_schema = { type: "object", properties: { sum: { type: "string" }, answer: { type: "string" } } };
const equal = {
  type: "string_check" as const,
  name: "equal",
  operation: "eq" as const,
  input: "{{sample.output_text}}",
  reference: "{{item.answer}}",
};
const short = {
  type: "python" as const,
  name: "short",
  pass_threshold: 0.5,
  source: "def grade(sample, item):\n    return 1.0 if len(sample['output_text']) < 4 else 0.0",
};
const entries = [{ item: { sum: "7 + 5", answer: "12" } }, { item: { sum: "2 + 2", answer: "5" } }];
const ended = (id: string, run: string) =>
  until(
    "the run to end",
    async () => {
      const now = await evals.runs.retrieve(run, { eval_id: id });
      return now.status === "queued" || now.status === "in_progress" ? undefined : now;
    },
    60_000,
  );

test("openai: an eval runs a deployment on items, and each output item has its results", async () => {
  const made = await evals.create({
    name: "sums",
    metadata: { team: "a" },
    testing_criteria: [equal, short],
    data_source_config: { type: "custom", item_schema, include_sample_schema: true },
  });
  expect((await evals.retrieve(made.id)).name).toBe("sums");
  expect((await evals.list()).data.map(({ id }: Json) => id)).toContain(made.id);
  const created = await evals.runs.create(made.id, {
    name: "first",
    data_source: {
      type: "completions",
      model: "tiny",
      input_messages: { type: "template", template: [{ role: "user", content: "What is {{item.sum}}?" }] },
      source: { type: "file_content", content: entries },
      sampling_params: { temperature: 0, max_completion_tokens: 8 },
    },
  });
  const run = await ended(made.id, created.id);
  expect(run).toMatchObject({
    status: "completed",
    model: "tiny",
    result_counts: { total: 2, passed: 1, failed: 1, errored: 0 },
    per_testing_criteria_results: [
      { testing_criteria: "equal", passed: 1, failed: 1 },
      { testing_criteria: "short", passed: 2, failed: 0 },
    ],
  });
  const { data } = await evals.runs.outputItems.list(run.id, { eval_id: made.id });
  const shown = data.map(({ status, datasource_item, sample }: Json) => [
    ...[status, datasource_item["sum"], sample.input[0]?.content, sample.output[0]?.content],
  ]);
  expect(shown.sort()).toEqual([
    ["fail", "2 + 2", "What is 2 + 2?", "4"],
    ["pass", "7 + 5", "What is 7 + 5?", "12"],
  ]);
  expect((await evals.runs.list(made.id)).data).toHaveLength(1);
  expect((await evals.delete(made.id)).deleted).toBe(true);
  expect(await evals.retrieve(made.id).catch((error: unknown) => error)).toMatchObject({ status: 404 });
}, 90_000);

test("openai: recorded answers of a file are graded without a model", async () => {
  const made = await evals.create({
    name: "recorded",
    testing_criteria: [equal],
    data_source_config: { type: "custom", item_schema },
  });
  const lines = entries.map((entry) => JSON.stringify({ ...entry, sample: { output_text: "12" } })).join("\n");
  const file = await openai.files.create({ file: await toFile(Buffer.from(lines), "in.jsonl"), purpose: "evals" });
  const created = await evals.runs.create(made.id, {
    data_source: { type: "jsonl", source: { type: "file_id", id: file.id } },
  });
  expect((await ended(made.id, created.id)).result_counts).toEqual({ total: 2, passed: 1, failed: 1, errored: 0 });
}, 90_000);

test("openai: models grade by label and by score; an item is read alone, and a run is deleted", async () => {
  const input = [
    { role: "system" as const, content: "The right answer is {{item.answer}}." },
    { role: "user" as const, content: { type: "input_text" as const, text: "Judge: {{ sample.output_text }}" } },
  ];
  const made = await evals.create({
    name: "judged",
    data_source_config: { type: "custom", item_schema },
    testing_criteria: [
      {
        type: "label_model",
        name: "label",
        model: "labeller",
        input,
        labels: ["good", "bad"],
        passing_labels: ["good"],
      },
      { type: "score_model", name: "score", model: "scorer", input, range: [1, 5], pass_threshold: 4 },
    ],
  });
  const content = entries.map((entry) => ({ ...entry, sample: { output_text: "12" } }));
  const { id } = await evals.runs.create(made.id, {
    data_source: { type: "jsonl", source: { type: "file_content", content } },
  });
  expect(await ended(made.id, id)).toMatchObject({
    status: "completed",
    result_counts: { total: 2, passed: 0, failed: 2, errored: 0 },
    per_testing_criteria_results: [
      { testing_criteria: "label", passed: 2, failed: 0 },
      { testing_criteria: "score", passed: 0, failed: 2 },
    ],
  });
  const [first] = (await evals.runs.outputItems.list(id, { eval_id: made.id })).data;
  const at = { eval_id: made.id, run_id: id };
  expect(await evals.runs.outputItems.retrieve(first.id, at)).toEqual(first);
  expect(first.results).toEqual([
    { name: "label", score: 1, passed: true },
    { name: "score", score: 3, passed: false },
  ]);
  const refusalOf = (call: Promise<unknown>) => call.catch((error: unknown) => error);
  expect(await refusalOf(evals.runs.outputItems.retrieve("expi_none", at))).toMatchObject({ status: 404 });
  const removed = { object: "eval.run.deleted", deleted: true, run_id: id };
  expect(await evals.runs.delete(id, { eval_id: made.id })).toEqual(removed);
  expect(await refusalOf(evals.runs.retrieve(id, { eval_id: made.id }))).toMatchObject({ status: 404 });
}, 90_000);

test("openai: what does not fit is a clear 400", async () => {
  const config = { type: "custom" as const, item_schema };
  type Refusal = { status: number; param: string; message: string };
  const refusal = async (call: Promise<unknown>) => (await call.catch((error: unknown) => error)) as Refusal;
  const judge = {
    type: "score_model" as const,
    name: "judge",
    model: "tiny",
    input: [{ role: "user" as const, content: "x" }],
  };
  const answer = [{ role: "user" as const, content: "{{sample.output_text}}" }];
  const labels = { type: "label_model" as const, labels: ["a", "b"], passing_labels: ["c"] };
  for (const [fields, status, param] of [
    [{}, 400, "input"],
    [{ input: [{ role: "user", content: "{{sample.output_text}} {{item.a}} {{who}}" }] }, 400, "input"],
    [{ input: answer, range: [2, 1] }, 400, "range"],
    [{ input: answer, ...labels }, 400, "passing_labels"],
    [{ input: answer, model: "none" }, 404, "model"],
  ] as const) {
    const criterion = { ...judge, ...fields };
    const answered = await refusal(evals.create({ data_source_config: config, testing_criteria: [criterion] }));
    expect([answered.status, answered.param]).toEqual([status, `/testing_criteria/0/${param}`]);
  }
  const logs = { data_source_config: { type: "logs" as const }, testing_criteria: [equal] };
  expect(await refusal(evals.create(logs))).toMatchObject({ status: 400, param: "/data_source_config/type" });
  const broken = { ...short, source: "def grade(sample, item)\n  return 1" };
  const code = await refusal(evals.create({ data_source_config: config, testing_criteria: [broken] }));
  expect([code.status, code.param]).toEqual([400, "/testing_criteria/0/source"]);
  const { id } = await evals.create({ data_source_config: config, testing_criteria: [equal] });
  const run = (data_source: object) => refusal(evals.runs.create(id, { data_source }));
  const source = { type: "file_content" as const, content: entries };
  expect(await run({ type: "jsonl", source })).toMatchObject({ status: 400, param: "/data_source/source/content/0" });
  const template = [{ role: "user" as const, content: "{{item.nothing}}" }];
  const ask = { type: "completions" as const, model: "none", source };
  expect(await run({ ...ask, input_messages: { type: "template", template } })).toMatchObject({
    status: 400,
    param: "/data_source/input_messages",
  });
  const plain = { type: "template" as const, template: [{ role: "user" as const, content: "hi" }] };
  expect(await run({ ...ask, input_messages: plain })).toMatchObject({ status: 404, param: "/data_source/model" });
}, 90_000);
