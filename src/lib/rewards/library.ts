/** Rewards that are there by name. Each source says in its first lines what it does and what its parameters mean. */
import { z } from "zod";
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
  params: z.ZodObject;
  /** See RewardCode. */
  running: Pick<RewardCode, "isolate" | "failedScore">;
};

const column = (fallback: string, what: string) =>
  z.string().min(1).default(fallback).describe(`The column with ${what}.`);
const flag = (what: string) => z.boolean().default(false).describe(what);
const fenced = z.boolean().default(true).describe("Judge what is in the one block fenced by ```, if there is one.");
const count = (fallback: number, what: string) => z.int().min(0).default(fallback).describe(what);

const python = (source: string, description: string, params: z.ZodObject): LibraryReward => ({
  language: "python",
  source: `${source.trimEnd()}\n\n\n${common}`, // the description stays at the top
  description,
  params,
  running: {},
});

const exactMatchParams = z.strictObject({
  column: column("answer", "the answer, or a list of them"),
  ignore_case: flag("Upper and lower case are the same."),
  collapse_spaces: flag("Runs of white space are one space."),
});

const regexMatchParams = z.strictObject({
  pattern: z.string().optional().describe("Python's syntax. A column `pattern` wins."),
  full: flag("The whole completion must match."),
  flags: z
    .string()
    .regex(/^[ims]*$/, "any of i, m and s")
    .default("")
    .describe("i: case, m: lines, s: dot is all."),
});

const jsonValidParams = z.strictObject({
  type: z.enum(["object", "array", "string", "number", "boolean", "null"]).optional().describe("And of this type."),
  fenced,
});

const jsonSchemaParams = z.strictObject({
  schema: z.record(z.string(), z.unknown()).optional().describe("Draft 2020-12. A column `schema` wins."),
  fenced,
  otherwise: z.number().default(0).describe("What JSON gets that does not satisfy the schema."),
});

const numericAnswerParams = z.strictObject({
  column: column("answer", "the number, or a text that answers it"),
  where: z.enum(["auto", "tag", "boxed", "hashes", "last"]).default("auto").describe("Where the number is looked for."),
  relative: z.number().min(0).default(1e-6).describe("How far off it may be, as a share of the answer."),
  absolute: z.number().min(0).default(0).describe("How far off it may be."),
});

const lengthPenaltyParams = z.strictObject({
  target: count(1000, "Up to here nothing is taken off."),
  max: count(2000, "From here on it is -1."),
  min: count(0, "Below it the penalty grows again, to -1 for nothing."),
  unit: z.enum(["characters", "words"]).default("characters").describe("What is counted."),
});

const thinkFormatParams = z.strictObject({
  tag: z.string().regex(/^\w+$/, "a word").default("think").describe("The name of the tag."),
  answer_tag: z.string().regex(/^\w+$/, "a word").optional().describe("What follows must be in this tag."),
  opened: flag("The prompt ends with the opening tag."),
  partial: flag("A quarter for each thing that is right."),
});

const codeTestsParams = z.strictObject({
  column: column("tests", "asserts, or pairs of input and output"),
  all: flag("1 only if every test passes, else 0."),
  seconds: z.number().positive().max(60).default(1).describe("For one test."),
});

const allOfCodeTests = [codeTests, codeTestsTrust, codeTestsWorld, codeTestsJudge, codeTestsRun].join("\n\n");

// biome-ignore format: a table should look like one
export const LIBRARY: Record<string, LibraryReward> = {
  exact_match:    python(exactMatch,    "The completion is the answer of the row.", exactMatchParams),
  regex_match:    python(regexMatch,    "A pattern is found in the completion.", regexMatchParams),
  json_valid:     python(`${jsonValid}\n\n${commonJson}`,     "The completion is JSON.", jsonValidParams),
  json_schema:    python(`${jsonSchema}\n\n${commonJson}`,    "The completion is JSON that satisfies a schema.", jsonSchemaParams),
  numeric_answer: python(numericAnswer, "The number that the completion answers is that of the row.", numericAnswerParams),
  length_penalty: python(lengthPenalty, "Takes off up to 1 from completions that are too long or too short.", lengthPenaltyParams),
  think_format:   python(thinkFormat,   "Thoughts in <think>…</think>, then an answer.", thinkFormatParams),
  code_tests:     { ...python(allOfCodeTests, "The share of the row's tests that the completion's Python code passes.", codeTestsParams), running: { isolate: true, failedScore: 0 } },
};
