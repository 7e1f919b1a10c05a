/** Graders of OpenAI's reinforcement fine-tuning as reward code: the grader's settings with one program for all kinds. */
import { z } from "zod";
import { later } from "../../../lib/schema.ts";
import program from "./grader.py" with { type: "text" };

const MAX_SOURCE = 256_000;
const name = z.string().min(1).max(100);
const Template = z.string().max(20_000).describe("{{item.field}} and {{sample.output_text}} are filled in");

export const StringCheck = later(() =>
  z.object({
    type: z.literal("string_check"),
    name,
    input: Template,
    reference: Template,
    operation: z.enum(["eq", "ne", "like", "ilike"]),
  }),
);
/** Metrics that need no other model. */
const METRICS = [
  "fuzzy_match",
  "bleu",
  "gleu",
  "rouge_1",
  "rouge_2",
  "rouge_3",
  "rouge_4",
  "rouge_5",
  "rouge_l",
] as const;
export const TextSimilarity = later(() =>
  z.object({
    type: z.literal("text_similarity"),
    name,
    input: Template,
    reference: Template,
    evaluation_metric: z.enum(METRICS),
  }),
);
export const Python = later(() =>
  z.object({
    type: z.literal("python"),
    name,
    source: z.string().min(1).max(MAX_SOURCE).describe("Code with a function grade(sample, item)"),
    image_tag: z.string().nullish(),
  }),
);
const ONE = [StringCheck, TextSimilarity, Python] as const;
const KINDS = "string_check, text_similarity, python or multi";
const Single = later(() => z.discriminatedUnion("type", ONE, { error: () => `type: must be ${KINDS}` }));
const Multi = later(() =>
  z.object({
    type: z.literal("multi"),
    name,
    graders: z
      .record(z.string().regex(/^[A-Za-z_]\w{0,63}$/, "must be a name such as accuracy"), Single)
      .refine((graders) => Object.keys(graders).length > 0, "needs a grader")
      .refine((graders) => Object.keys(graders).length <= 16, "takes at most 16 graders"),
    calculate_output: z.string().min(1).max(2_000).describe("Such as 0.7 * accuracy + 0.3 * brevity"),
  }),
);

export const Grader = later(() =>
  z.discriminatedUnion("type", [...ONE, Multi], {
    error: () => `must be a ${KINDS} grader: score graders of a judge with an evaluator of POST /v1/training_jobs`,
  }),
);
export type Grader = z.infer<typeof Grader>;

/** A JSON text inside a JSON text is also a text of Python. `column`: a column with the item as JSON. Default: the row. */
export const rewardSource = (grader: Grader, column?: string): string =>
  `import json\n\nGRADER = json.loads(${JSON.stringify(JSON.stringify(grader))})\nCOLUMN = ${column === undefined ? "None" : JSON.stringify(column)}\n\n${program}`;
