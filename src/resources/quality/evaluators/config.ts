/** The settings of each kind of evaluator: as a request has them, and as a row keeps them. */
import { z } from "zod";
import { JsonSchema } from "../../../lib/chat/messages.ts";
import { LANGUAGES, type Language, MAX_SOURCE_BYTES } from "../../../lib/rewards/contract.ts";
import { Label, later } from "../../../lib/schema.ts";
import { compilePattern } from "./pattern.ts";

export const KINDS = ["code", "reward_function", "string_check", "json_schema", "similarity", "llm_judge"] as const;

const MAX_TEXT = 20_000;
const MAX_LABELS = 32;

const Text = later(() =>
  z
    .string()
    .max(MAX_TEXT)
    .refine((text) => text.isWellFormed(), "must be well-formed Unicode"),
);
const Source = later(() =>
  z
    .string()
    .min(1)
    .refine((text) => Buffer.byteLength(text) <= MAX_SOURCE_BYTES, `is longer than ${MAX_SOURCE_BYTES} bytes`)
    .refine((text) => text.isWellFormed(), "must be well-formed Unicode"),
);
const Params = later(() =>
  z.record(z.string(), z.unknown()).default({}).describe("Passed to the code as keyword arguments"),
);
const Deployment = z.string().min(1).max(200).describe("The id or the name of a deployment of this workspace");

export const CodeConfig = later(() =>
  z.object({
    source: Source.unwrap().describe("Code with a function such as reward(prompt, completion, **columns)"),
    language: z.enum(LANGUAGES).optional().describe("Default: detected"),
    params: Params,
    timeout_seconds: z
      .number()
      .min(0.01)
      .max(600)
      .optional()
      .describe("For one row. Default: sandbox.sample_timeout_ms"),
  }),
);

export const RewardFunctionConfig = later(() =>
  z.object({
    reward_function: z
      .string()
      .min(1)
      .max(200)
      .describe(
        "An id, a name (its newest version now), name@3, or a built-in reward. Stored as the id of the version",
      ),
    params: Params,
  }),
);

export const OPERATIONS = ["equals", "contains", "starts_with", "regex"] as const;

export const StringCheckConfig = later(() =>
  z
    .object({
      operation: z.enum(OPERATIONS).describe("regex: RE2-like syntax, without look-around and back references"),
      value: Text.nullable().default(null).describe("The text or the pattern. Null: the reference of each row"),
      ignore_case: z.boolean().default(false),
    })
    .superRefine(({ operation, value, ignore_case: ignoreCase }, issues) => {
      if (operation !== "regex" || value === null) return;
      const compiled = compilePattern(value, ignoreCase);
      if ("error" in compiled) issues.addIssue({ code: "custom", path: ["value"], message: compiled.error });
    }),
);

export const JsonSchemaConfig = later(() =>
  z.object({
    schema: JsonSchema.describe("A JSON schema, draft 2020-12"),
    fenced: z.boolean().default(true).describe("Read only the content of the one block fenced by ```, if there is one"),
  }),
);

export const SimilarityConfig = later(() => z.object({ deployment: Deployment }));

const Scale = later(() =>
  z
    .object({ min: z.int().min(-1000).max(1000), max: z.int().min(-1000).max(1000) })
    .refine(({ min, max }) => min < max, { path: ["max"], message: "must be greater than min" }),
);
const Labels = later(() =>
  z
    .record(Label(64), z.number())
    .refine((labels) => Object.keys(labels).length >= 2, "needs at least two labels")
    .refine((labels) => Object.keys(labels).length <= MAX_LABELS, `takes at most ${MAX_LABELS} labels`),
);

export const MODES = ["score", "labels", "pairwise"] as const;

const placeholders = (prompt: string) => [...prompt.matchAll(/\{\{\s*(\w+)\s*\}\}/g)].map(([, name]) => name);
/** A prompt without these would judge every answer alike. */
const FILLED = { score: ["output"], labels: ["output"], pairwise: ["output", "other"] } as const;

export const JudgeConfig = later(() =>
  z
    .object({
      deployment: Deployment,
      rubric: Text.unwrap().min(1).describe("What makes an answer good or bad"),
      prompt: Text.nullable()
        .default(null)
        .describe(
          "Replaces the built-in prompt. {{rubric}}, {{input}}, {{output}}, {{reference}}, {{other}} are filled in, and {{reference.field}} if the reference is a JSON object",
        ),
      mode: z
        .enum(MODES)
        .default("score")
        .describe("score: a number on the scale. labels: one of the labels. pairwise: the better of two answers"),
      scale: Scale.default({ min: 1, max: 5 }).describe("For the mode score"),
      labels: Labels.nullable().default(null).describe("For the mode labels: the score of each label"),
      swap: z
        .boolean()
        .default(true)
        .describe("For the mode pairwise: ask twice with exchanged positions. Verdicts that differ are a tie"),
      explain: z.boolean().default(true).describe("Ask for a reason before the verdict. False is faster"),
      temperature: z.number().min(0).max(2).default(0),
      max_tokens: z
        .int()
        .min(8)
        .max(8192)
        .default(512)
        .describe("For one verdict. A verdict that is cut off is an error"),
    })
    .superRefine(({ mode, labels, prompt }, issues) => {
      const missing = prompt === null ? undefined : FILLED[mode].find((name) => !placeholders(prompt).includes(name));
      if (missing)
        issues.addIssue({
          code: "custom",
          path: ["prompt"],
          message: `must contain {{${missing}}} in the mode ${mode}`,
        });
      if (mode === "labels" && labels === null)
        issues.addIssue({ code: "custom", path: ["labels"], message: "is missing: the mode labels needs labels" });
    }),
);
export type JudgeConfig = z.output<typeof JudgeConfig>;

/** The settings of a row, by kind. `code` has its source in a column of its own. */
export type Settings =
  | {
      kind: "code";
      config: { language: Language; params: Record<string, unknown>; timeout_seconds: number };
    }
  | { kind: "reward_function"; config: z.output<typeof RewardFunctionConfig> }
  | { kind: "string_check"; config: z.output<typeof StringCheckConfig> }
  | { kind: "json_schema"; config: z.output<typeof JsonSchemaConfig> }
  | { kind: "similarity"; config: z.output<typeof SimilarityConfig> }
  | { kind: "llm_judge"; config: JudgeConfig };

/** A row's kind decides the type of its config. The database cannot say so. */
export const settingsOf = ({ kind, config }: { kind: Settings["kind"]; config: Settings["config"] }): Settings =>
  ({ kind, config }) as Settings;
