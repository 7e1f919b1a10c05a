import { z } from "zod";
import { isId } from "../../../lib/ids.ts";
import { Entrypoint, Fault, LANGUAGES, MAX_SOURCE_BYTES, Rejection } from "../../../lib/rewards/contract.ts";
import { sampleFault } from "../../../lib/rewards/samples.ts";
import { DateTime, isoOrNull, Label, later, Metadata, MetadataText } from "../../../lib/schema.ts";
import { KINDS, type RewardFunctionRow, STATUSES } from "./table.ts";

export const MAX_ROWS = 10_000;
const MAX_PARTS = 16;
const MAX_TIMEOUT_SECONDS = 600;

export const RewardFunction = later(() =>
  z
    .object({
      object: z.literal("reward_function"),
      id: z.string().describe("The id of a built-in reward is its name"),
      name: z.string(),
      version: z.int(),
      kind: z.enum(KINDS).describe("reward scores completions; resolver maps the rows of a job"),
      builtin: z.boolean().describe("True for built-in rewards, which every workspace has"),
      language: z.enum(LANGUAGES),
      description: z.string().nullable(),
      metadata: z.record(z.string(), z.string()),
      timeout_seconds: z.number().describe("For one sample"),
      entrypoints: z.array(Entrypoint),
      params: z.record(z.string(), z.unknown()).nullable().describe("JSON schema of the params of a built-in reward"),
      sha256: z.string().describe("Hash of the source"),
      size_bytes: z.int(),
      status: z.enum(STATUSES).describe("invalid: the code cannot be run; see error"),
      error: z
        .object({
          code: Rejection.unwrap().shape.kind,
          message: z.string(),
          line: z.int().nullable(),
          column: z.int().nullable(),
        })
        .nullable(),
      created_at: DateTime.nullable().describe("Null for a built-in reward"),
    })
    .meta({ id: "RewardFunction" }),
);
export type RewardFunction = z.infer<typeof RewardFunction>;

const RESERVED = ["library", "run"]; // paths of the API

/** A name is part of a URL and may be followed by @version, so it has no / and no @ and does not look like an id. */
const Name = later(() =>
  Label(100)
    .refine((text) => /^[\p{L}\p{N}][^/@]*$/u.test(text), "must begin with a letter or digit and contain no / or @")
    .refine((text) => !isId(text, "rf"), "must not look like an id")
    .refine((text) => !RESERVED.includes(text), "is reserved: choose another name"),
);
const Seconds = z.number().min(0.01).max(MAX_TIMEOUT_SECONDS);
const Source = later(() =>
  z
    .string()
    .min(1)
    .refine((text) => Buffer.byteLength(text) <= MAX_SOURCE_BYTES, `is longer than ${MAX_SOURCE_BYTES} bytes`)
    .refine((text) => text.isWellFormed(), "must be well-formed Unicode"),
);
const Language = z.enum(LANGUAGES);
const described = () => ({
  name: Name,
  kind: z
    .enum(KINDS)
    .default("reward")
    .describe("resolver: code with a function resolve(row), for data_resolver of a job"),
  description: Label(2000).nullish(),
  language: Language.optional(),
});

export const CreateRewardFunction = later(() =>
  z
    .object({
      ...described(),
      source: Source,
      language: Language.optional().describe("Default: detected"),
      metadata: Metadata.optional(),
      timeout_seconds: Seconds.optional().describe("For one sample. Default: sandbox.sample_timeout_ms"),
    })
    .meta({ id: "CreateRewardFunction" }),
);

/** The text fields of the form, besides the file. */
export const RewardFunctionFields = later(() => {
  const fields = described();
  return z.object({
    ...fields,
    description: fields.description.or(z.literal("").transform(() => null)),
    metadata: MetadataText.optional(),
    timeout_seconds: z.coerce.number("must be a number of seconds").pipe(Seconds).optional(),
  });
});

const Params = later(() => z.record(z.string(), z.unknown()).describe("Passed to the code as keyword arguments"));

const Row = later(() =>
  z.record(z.string(), z.unknown()).superRefine((row, context) => {
    const message = sampleFault(row);
    if (message) context.addIssue({ code: "custom", path: ["completion"], message });
  }),
);
const runFields = () => ({
  rows: z.array(Row).min(1).max(MAX_ROWS).describe("Each has completion, usually prompt, and any other columns"),
  seed: z.int().min(0).max(0xffff_ffff).default(0).describe("Seed of random and Math.random"),
  timeout_seconds: Seconds.optional().describe("For one sample; overrides the timeouts of the functions"),
});

export const RunRewardFunction = later(() =>
  z.object({ ...runFields(), params: Params.default({}) }).meta({ id: "RunRewardFunction" }),
);
export type RunRewardFunction = z.infer<typeof RunRewardFunction>;

export const RewardRef = later(() =>
  z.object({
    id: z.string().min(1).max(200).describe("An id, a name (the newest version), name@3, or a built-in reward"),
    weight: z.number().default(1),
    params: Params.default({}),
  }),
);
export type RewardRef = z.input<typeof RewardRef>;

export const RunRewards = later(() =>
  z
    .object({
      ...runFields(),
      source: Source.optional().describe("Code to run once; it is not stored"),
      language: Language.optional().describe("Language of source. Default: detected"),
      params: Params.default({}).describe("For source"),
      reward_functions: z.array(RewardRef).max(MAX_PARTS).default([]),
    })
    .refine(({ source, reward_functions }) => source !== undefined || reward_functions.length > 0, {
      path: ["source"],
      message: "is missing: send source, or reward_functions, or both",
    })
    .meta({ id: "RunRewards" }),
);
export type RunRewards = z.infer<typeof RunRewards>;

const Figure = z.number().nullable();
export const RewardRun = later(() =>
  z
    .object({
      object: z.literal("reward_run"),
      results: z.array(
        z.object({
          index: z.int(),
          reward: Figure.describe("The weighted sum; null if a function failed or none applies"),
          sub_rewards: z.record(z.string(), Figure),
          latency_ms: z.number(),
          error: Fault.unwrap().extend({ reward: z.string() }).nullable(),
        }),
      ),
      summary: z.object({
        count: z.int(),
        scored: z.int(),
        mean: Figure,
        std: Figure,
        min: Figure,
        max: Figure,
        faults: z.record(z.string(), z.int()).describe("Number of errors by kind"),
        latency_ms_p50: Figure,
        latency_ms_p95: Figure,
      }),
      stdout: z.string().describe("Output of the code, at most 64 KiB"),
    })
    .meta({ id: "RewardRun" }),
);
export type RewardRun = z.infer<typeof RewardRun>;

export const present = (row: RewardFunctionRow): RewardFunction => ({
  object: "reward_function",
  id: row.id,
  name: row.name,
  version: row.version,
  kind: row.kind,
  builtin: false,
  language: row.language,
  description: row.description,
  metadata: row.metadata,
  timeout_seconds: row.timeoutMs / 1000,
  entrypoints: row.entrypoints,
  params: null,
  sha256: row.sha256,
  size_bytes: row.sizeBytes,
  status: row.status,
  error: row.error && {
    code: row.error.kind,
    message: row.error.message,
    line: row.error.line,
    column: row.error.column,
  },
  created_at: isoOrNull(row.createdAt),
});
