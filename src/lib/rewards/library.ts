/** Built-in rewards. The first lines of each source describe it and its parameters. */
import { z } from "zod";
import { later } from "../schema.ts";
import type { Language, RewardCode } from "./contract.ts";
import codeTests from "./library/code_tests.py" with { type: "text" };
import codeTestsJudge from "./library/code_tests_judge.py" with { type: "text" };
import codeTestsRun from "./library/code_tests_run.py" with { type: "text" };
import codeTestsTrust from "./library/code_tests_trust.py" with { type: "text" };
import codeTestsWorld from "./library/code_tests_world.py" with { type: "text" };
import common from "./library/common.py" with { type: "text" };
import commonJson from "./library/common_json.py" with { type: "text" };
import exactMatch from "./library/exact_match.py" with { type: "text" };
import jsonSchema from "./library/json_schema.py" with { type: "text" };
import jsonValid from "./library/json_valid.py" with { type: "text" };
import lengthPenalty from "./library/length_penalty.py" with { type: "text" };
import numericAnswer from "./library/numeric_answer.py" with { type: "text" };
import regexMatch from "./library/regex_match.py" with { type: "text" };
import thinkFormat from "./library/think_format.py" with { type: "text" };

export type LibraryReward = {
  language: Language;
  source: string;
  description: string;
  /** The source has the same defaults. */
  params: z.ZodLazy<z.ZodObject>;
  /** See RewardCode. */
  running: Pick<RewardCode, "isolate" | "failedScore">;
};

const column = (fallback: string, what: string) =>
  z.string().min(1).default(fallback).describe(`The column with ${what}.`);
const flag = (what: string) => z.boolean().default(false).describe(what);
const fenced = () =>
  z.boolean().default(true).describe("Judge only the content of the one block fenced by ```, if there is one.");
const count = (fallback: number, what: string) => z.int().min(0).default(fallback).describe(what);

const python = (source: string, description: string, params: z.ZodLazy<z.ZodObject>): LibraryReward => ({
  language: "python",
  source: `${source.trimEnd()}\n\n\n${common}`, // the description stays at the top
  description,
  params,
  running: {},
});

const exactMatchParams = later(() =>
  z.strictObject({
    column: column("answer", "the answer, or a list of them"),
    ignore_case: flag("Ignore the difference between upper and lower case."),
    collapse_spaces: flag("Treat runs of white space as one space."),
  }),
);

const regexMatchParams = later(() =>
  z.strictObject({
    pattern: z.string().optional().describe("Python's syntax. A column `pattern` overrides it."),
    full: flag("The whole completion must match."),
    flags: z
      .string()
      .regex(/^[ims]*$/, "must be any of i, m and s")
      .default("")
      .describe("i: ignore case, m: ^ and $ match at lines, s: the dot matches line breaks."),
  }),
);

const jsonValidParams = later(() =>
  z.strictObject({
    type: z
      .enum(["object", "array", "string", "number", "boolean", "null"])
      .optional()
      .describe("The JSON value must have this type."),
    fenced: fenced(),
  }),
);

const jsonSchemaParams = later(() =>
  z.strictObject({
    schema: z.record(z.string(), z.unknown()).optional().describe("Draft 2020-12. A column `schema` overrides it."),
    fenced: fenced(),
    otherwise: z.number().default(0).describe("Score of JSON that does not satisfy the schema."),
  }),
);

const numericAnswerParams = later(() =>
  z.strictObject({
    column: column("answer", "the number, or a text with the answer"),
    where: z
      .enum(["auto", "tag", "boxed", "hashes", "last"])
      .default("auto")
      .describe("The part of the completion that is searched for the number."),
    relative: z.number().min(0).default(1e-6).describe("Maximum relative error."),
    absolute: z.number().min(0).default(0).describe("Maximum absolute error."),
  }),
);

const lengthPenaltyParams = later(() =>
  z.strictObject({
    target: count(1000, "No penalty up to this length."),
    max: count(2000, "From this length on the penalty is -1."),
    min: count(0, "Below this length the penalty grows again, to -1 for an empty completion."),
    unit: z.enum(["characters", "words"]).default("characters").describe("The unit of length."),
  }),
);

const thinkFormatParams = later(() =>
  z.strictObject({
    tag: z.string().regex(/^\w+$/, "a word").default("think").describe("The name of the tag."),
    answer_tag: z
      .string()
      .regex(/^\w+$/, "a word")
      .optional()
      .describe("The answer after the thoughts must be in this tag."),
    opened: flag("The prompt already ends with the opening tag."),
    partial: flag("Give a quarter for each part that is right."),
  }),
);

const codeTestsParams = later(() =>
  z.strictObject({
    column: column("tests", "asserts, or pairs of input and output"),
    all: flag("1 only if every test passes, otherwise 0."),
    seconds: z.number().positive().max(60).default(1).describe("Seconds for one test."),
  }),
);

const allOfCodeTests = [codeTests, codeTestsTrust, codeTestsWorld, codeTestsJudge, codeTestsRun].join("\n\n");

// biome-ignore format: a table should look like one
export const LIBRARY: Record<string, LibraryReward> = {
  exact_match:    python(exactMatch,    "The completion equals the answer of the row.", exactMatchParams),
  regex_match:    python(regexMatch,    "The completion matches a pattern.", regexMatchParams),
  json_valid:     python(`${jsonValid}\n\n${commonJson}`,     "The completion is JSON.", jsonValidParams),
  json_schema:    python(`${jsonSchema}\n\n${commonJson}`,    "The completion is JSON that satisfies a schema.", jsonSchemaParams),
  numeric_answer: python(numericAnswer, "The number in the completion equals that of the row.", numericAnswerParams),
  length_penalty: python(lengthPenalty, "Subtracts up to 1 from completions that are too long or too short.", lengthPenaltyParams),
  think_format:   python(thinkFormat,   "Thoughts in <think>…</think>, then an answer.", thinkFormatParams),
  code_tests:     { ...python(allOfCodeTests, "The share of the row's tests that the completion's Python code passes.", codeTestsParams), running: { isolate: true, failedScore: 0 } },
};
