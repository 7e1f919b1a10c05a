/** Evaluations of OpenAI: requests and answers. */
import { z } from "zod";
import { JsonSchema } from "../../../lib/chat/messages.ts";
import { Label, later } from "../../../lib/schema.ts";
import { Python, StringCheck, TextSimilarity } from "../fine_tuning/graders.ts";
import { Metadata } from "../fine_tuning/schema.ts";

const MAX_CRITERIA = 16;
const MAX_ITEMS = 10_000;
const MAX_MESSAGES = 256;

const Text = z.string().max(100_000).describe("{{item.field}} is filled in");
const TemplateMessage = later(() =>
  z.object({
    type: z.literal("message").nullish(),
    role: z.enum(["system", "developer", "user", "assistant"]),
    content: z.union([Text, z.object({ type: z.enum(["input_text", "output_text"]), text: Text })]),
  }),
);

const JudgeInput = later(() => z.array(TemplateMessage).min(1).max(MAX_MESSAGES));
const judge = () => ({
  name: Label(100),
  model: Label(100).describe("The name of the deployment that judges"),
  input: JudgeInput,
});
const LabelModel = later(() =>
  z.object({
    type: z.literal("label_model"),
    ...judge(),
    labels: z.array(Label(64)).min(2).max(32),
    passing_labels: z.array(Label(64)).min(1).max(32),
  }),
);
const ScoreModel = later(() =>
  z.object({
    type: z.literal("score_model"),
    ...judge(),
    range: z.tuple([z.int(), z.int()]).nullish().describe("The judge gives whole numbers. Default: 0 to 1"),
    sampling_params: z
      .strictObject({
        temperature: z.number().min(0).max(2).nullish(),
        max_completions_tokens: z.int().min(8).max(8192).nullish(),
      })
      .nullish(),
  }),
);

const Threshold = z.number().nullish().describe("A score of at least this passes");

export const Criterion = later(() =>
  z.discriminatedUnion(
    "type",
    [
      StringCheck,
      TextSimilarity.unwrap().extend({ pass_threshold: Threshold }),
      Python.unwrap().extend({ pass_threshold: Threshold }),
      LabelModel,
      ScoreModel.unwrap().extend({ pass_threshold: Threshold }),
    ],
    { error: () => "type: must be string_check, text_similarity, python, label_model or score_model" },
  ),
);
export type Criterion = z.infer<typeof Criterion>;
export type ModelCriterion = Extract<Criterion, { model: string }>;

export const DataSourceConfig = later(() =>
  z.discriminatedUnion(
    "type",
    [
      z.object({
        type: z.literal("custom"),
        item_schema: JsonSchema.describe("Describes an item. The items of a run are not checked against it"),
        include_sample_schema: z.boolean().nullish(),
      }),
    ],
    { error: () => "type: must be custom: logs and stored completions are no source here" },
  ),
);
export type DataSourceConfig = z.infer<typeof DataSourceConfig>;

export const CreateEval = later(() =>
  z
    .object({
      name: Label(200).nullish(),
      data_source_config: DataSourceConfig,
      testing_criteria: z.array(Criterion).min(1).max(MAX_CRITERIA),
      metadata: Metadata.nullish(),
    })
    .meta({ id: "CreateEval" }),
);
export const UpdateEval = later(() =>
  z.object({ name: Label(200).optional(), metadata: Metadata.nullish() }).meta({ id: "UpdateEval" }),
);
export type CreateEval = z.infer<typeof CreateEval>;

export const Entry = later(() =>
  z.object({
    item: z.record(z.string(), z.unknown()),
    sample: z.looseObject({ output_text: z.string().nullish() }).nullish(),
  }),
);
export type Entry = z.infer<typeof Entry>;

const Source = later(() =>
  z.discriminatedUnion(
    "type",
    [
      z.object({ type: z.literal("file_content"), content: z.array(Entry).min(1).max(MAX_ITEMS) }),
      z.object({ type: z.literal("file_id"), id: z.string().min(1).describe("A file with the purpose evals") }),
    ],
    { error: () => "type: must be file_content or file_id" },
  ),
);
export type Source = z.infer<typeof Source>;

const InputMessages = later(() =>
  z.discriminatedUnion("type", [
    z.object({ type: z.literal("template"), template: z.array(TemplateMessage).min(1).max(MAX_MESSAGES) }),
    z.object({
      type: z.literal("item_reference"),
      item_reference: z.string().regex(/^item\.[\w.]+$/, "must be a field of the item, such as item.messages"),
    }),
  ]),
);
export type InputMessages = z.infer<typeof InputMessages>;

const SamplingParams = later(() =>
  z.object({
    temperature: z.number().min(0).max(2).nullish(),
    top_p: z.number().min(0).max(1).nullish(),
    seed: z.int().nullish(),
    max_completion_tokens: z.int().min(1).max(1_000_000).nullish(),
    max_completions_tokens: z.int().min(1).max(1_000_000).nullish().describe("The older name of max_completion_tokens"),
  }),
);

const generated = <T extends string>(type: T) =>
  z.object({
    type: z.literal(type),
    model: Label(100).describe("The name of the deployment that answers"),
    input_messages: InputMessages,
    source: Source,
    sampling_params: SamplingParams.nullish(),
  });
export const DataSource = later(() =>
  z.discriminatedUnion(
    "type",
    [
      z
        .object({ type: z.literal("jsonl"), source: Source })
        .describe("Each entry has its answer in sample.output_text"),
      generated("completions"),
      generated("responses"),
    ],
    { error: () => "type: must be jsonl, completions or responses" },
  ),
);
export type DataSource = z.infer<typeof DataSource>;

export const CreateEvalRun = later(() =>
  z
    .object({ name: Label(200).nullish(), data_source: DataSource, metadata: Metadata.nullish() })
    .meta({ id: "CreateEvalRun" }),
);
export type CreateEvalRun = z.infer<typeof CreateEvalRun>;

const Time = z.int().describe("Unix seconds");

export const Eval = later(() =>
  z
    .object({
      id: z.string(),
      object: z.literal("eval"),
      name: z.string(),
      data_source_config: z.object({ type: z.literal("custom"), schema: z.record(z.string(), z.unknown()) }),
      testing_criteria: z.array(z.looseObject({ id: z.string(), type: z.string(), name: z.string() })),
      metadata: z.record(z.string(), z.string()),
      created_at: Time,
    })
    .meta({ id: "Eval" }),
);
export type Eval = z.infer<typeof Eval>;

export const RUN_STATUSES = ["queued", "in_progress", "completed", "failed", "canceled"] as const;
const counts = () => ({ passed: z.int(), failed: z.int() });

export const EvalRun = later(() =>
  z
    .object({
      id: z.string().describe("Also the id of the experiment"),
      object: z.literal("eval.run"),
      eval_id: z.string(),
      name: z.string(),
      status: z.enum(RUN_STATUSES),
      model: z.string().describe("Empty for recorded answers"),
      report_url: z.string().describe("The experiment"),
      data_source: z.record(z.string(), z.unknown()),
      result_counts: z.object({ total: z.int(), errored: z.int(), ...counts() }),
      per_testing_criteria_results: z.array(z.object({ testing_criteria: z.string(), ...counts() })),
      per_model_usage: z.array(z.never()),
      error: z.object({ code: z.string(), message: z.string() }).nullable(),
      metadata: z.record(z.string(), z.string()),
      created_at: Time,
    })
    .meta({ id: "EvalRun" }),
);
export type EvalRun = z.infer<typeof EvalRun>;

const Message = later(() => z.object({ role: z.string(), content: z.string() }));
export const EvalOutputItem = later(() =>
  z
    .object({
      id: z.string(),
      object: z.literal("eval.run.output_item"),
      eval_id: z.string(),
      run_id: z.string(),
      status: z.enum(["pass", "fail", "error"]),
      datasource_item_id: z.int(),
      datasource_item: z.record(z.string(), z.unknown()),
      results: z.array(z.object({ name: z.string(), score: z.number().nullable(), passed: z.boolean() })),
      sample: z.object({
        input: z.array(Message),
        output: z.array(Message),
        error: z.object({ code: z.string(), message: z.string() }).nullable(),
        usage: z.object({ prompt_tokens: z.int(), completion_tokens: z.int(), total_tokens: z.int() }),
      }),
      created_at: Time,
    })
    .meta({ id: "EvalOutputItem" }),
);
export type EvalOutputItem = z.infer<typeof EvalOutputItem>;
