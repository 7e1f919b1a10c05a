/**
 * Hyperparameters as users give them, with TRL's names: GRPOConfig, SFTConfig, DPOConfig of TRL 1.10 and
 * TrainingArguments of transformers 5.16. `warmup_ratio`, which the latter merged into `warmup_steps`, stays. Strict,
 * because a typo costs GPU hours; foreign_names.ts lists names that are ignored. Every field may be "auto"; resolve.ts
 * replaces it and absent fields. Differences: `importance_sampling_correction`, `_mode`, `_clip_min`, `_clip_max` have no
 * prefix `vllm_`, and `dynamic_sampling` is ours.
 */
import { z } from "zod";
import { ALIASES, ELSEWHERE, IGNORED } from "./foreign_names.ts";
import { SCALE_REWARDS } from "./loss/advantages.ts";
import { DPO_LOSSES } from "./loss/dpo.ts";
import { GRPO_LOSSES, SAMPLING_LEVELS } from "./loss/grpo.ts";
import { CORRECTION_MODES } from "./loss/importance.ts";
import { shortened, sortNames, suggestion } from "./names.ts";
import { SCHEDULES } from "./schedule.ts";

export const METHODS = ["grpo", "sft", "dpo"] as const;
export type Method = (typeof METHODS)[number];

const whole = (least: number, most: number) => z.int().min(least).max(most);
const share = z.number().min(0).max(1);
const positive = (most: number) => z.number().positive().max(most);
const atLeast0 = z.number().min(0).max(1e6);

export const LrSchedulerKwargs = z.strictObject({
  num_cycles: positive(1000).optional(),
  min_lr: atLeast0.optional(),
  min_lr_rate: share.optional(),
  lr_end: atLeast0.optional(),
  power: positive(100).optional(),
  timescale: positive(1e9).optional(),
});

const common = {
  learning_rate: positive(1),
  num_train_epochs: positive(10_000),
  max_steps: whole(-1, 1e7).refine((steps) => steps !== 0, "must be -1 (as many as the epochs take) or at least 1"),
  per_device_train_batch_size: whole(1, 4096),
  gradient_accumulation_steps: whole(1, 4096),
  lr_scheduler_type: z.enum(SCHEDULES),
  lr_scheduler_kwargs: LrSchedulerKwargs.nullable(),
  warmup_ratio: share,
  warmup_steps: z.number().min(0).max(1e7),
  max_grad_norm: atLeast0.describe("0 = no clipping"),
  weight_decay: atLeast0,
  adam_beta1: z.number().min(0).lt(1),
  adam_beta2: z.number().min(0).lt(1),
  adam_epsilon: positive(1),
  gradient_checkpointing: z.boolean(),
  shuffle_dataset: z.boolean(),
};

const scaleRewards = z.preprocess(
  (value) => (value === true ? "group" : value === false ? "none" : value),
  z.enum(SCALE_REWARDS),
);

const grpo = {
  ...common,
  num_generations: whole(2, 1024),
  steps_per_generation: whole(1, 4096).nullable(),
  generation_batch_size: whole(2, 1e6).nullable(),
  max_completion_length: whole(1, 1e6),
  temperature: positive(10),
  top_p: z.number().positive().max(1),
  top_k: whole(0, 1e6).describe("0 = off"),
  min_p: share.nullable(),
  repetition_penalty: positive(10),
  beta: atLeast0,
  num_iterations: whole(1, 1000),
  epsilon: z.number().min(0).lt(1),
  epsilon_high: atLeast0.nullable(),
  delta: positive(1e6).nullable(),
  sapo_temperature_pos: positive(1000),
  sapo_temperature_neg: positive(1000),
  loss_type: z.enum(GRPO_LOSSES),
  scale_rewards: scaleRewards,
  mask_truncated_completions: z.boolean(),
  importance_sampling_level: z.enum(SAMPLING_LEVELS),
  importance_sampling_correction: z.boolean(),
  importance_sampling_mode: z.enum(CORRECTION_MODES),
  importance_sampling_clip_min: atLeast0.nullable(),
  importance_sampling_clip_max: positive(1e6).nullable(),
  dynamic_sampling: z.boolean(),
};

const sft = {
  ...common,
  max_length: whole(2, 1e7).nullable(),
  packing: z.boolean(),
  completion_only_loss: z.boolean().nullable(),
  assistant_only_loss: z.boolean(),
};

const dpo = {
  ...common,
  beta: positive(1e6),
  loss_type: z.enum(DPO_LOSSES),
  label_smoothing: z.number().min(0).lt(0.5),
  max_length: whole(2, 1e7).nullable(),
};

const FIELDS = { grpo, sft, dpo } as const;
type Fields = typeof FIELDS;
export type Values<M extends Method> = { [K in keyof Fields[M]]: z.infer<Fields[M][K]> };
/** A user's input: any of the method's fields, with a value or "auto". */
export type HyperparameterInput<M extends Method> = { [K in keyof Fields[M]]?: z.infer<Fields[M][K]> | "auto" };

/** A response lists at most this many problems: each unknown name costs a search for a similar one. */
export const MOST_PROBLEMS = 20;

/** One problem. `path` begins with the field's name. */
export type Problem = { path: (string | number)[]; message: string };
/** `ignored`: names of TRL and Transformers without effect here. */
export type Read<M extends Method> =
  | { ok: true; given: HyperparameterInput<M>; ignored: string[] }
  | { ok: false; problems: Problem[] };

export function readHyperparameters<M extends Method>(method: M, raw: unknown): Read<M> {
  if (raw === undefined || raw === null) return { ok: true, given: {}, ignored: [] };
  if (typeof raw !== "object" || Array.isArray(raw))
    return { ok: false, problems: [{ path: [], message: "must be an object" }] };
  const fields: Record<string, z.ZodType> = FIELDS[method];
  const given: Record<string, unknown> = {};
  const known = Object.keys(fields);
  const sorted = sortNames(raw, { known, aliases: ALIASES, ignored: IGNORED[method] });
  const problems: Problem[] = [
    ...sorted.twice.map(({ from, name }) => ({
      path: [from],
      message: `is another name of ${name}: give one of them`,
    })),
    ...sorted.unknown
      .slice(0, MOST_PROBLEMS)
      .map((name) => ({ path: [shortened(name)], message: unknownMessage(method, name, known) })),
  ];
  for (const { name, from, value } of sorted.given) {
    if (problems.length >= MOST_PROBLEMS) break;
    const read = value === "auto" ? { success: true as const, data: value } : fields[name]!.safeParse(value);
    if (read.success) given[name] = read.data;
    else
      for (const issue of read.error.issues.slice(0, MOST_PROBLEMS))
        problems.push({ path: [from, ...place(issue)], message: words(issue) });
  }
  return problems.length > 0
    ? { ok: false, problems: problems.slice(0, MOST_PROBLEMS) }
    : { ok: true, given: given as HyperparameterInput<M>, ignored: sorted.ignored };
}

const place = (issue: z.core.$ZodIssue) => issue.path.map((part) => (typeof part === "number" ? part : String(part)));

function words(issue: z.core.$ZodIssue): string {
  if (issue.code !== "unrecognized_keys") return issue.message;
  const known = Object.keys(LrSchedulerKwargs.shape);
  const keys = issue.keys.slice(0, MOST_PROBLEMS);
  return keys.map((key) => `unknown field: ${shortened(key)}${suggestion(key, known)}`).join("; ");
}

/** Does not repeat the name: the path has it. */
function unknownMessage(method: Method, name: string, known: readonly string[]): string {
  const elsewhere = Object.hasOwn(ELSEWHERE, name) ? ELSEWHERE[name] : undefined;
  if (elsewhere !== undefined) return elsewhere;
  const has = (other: Method) => Object.hasOwn(FIELDS[other], ALIASES[name] ?? name) || IGNORED[other].has(name);
  const owners = METHODS.filter(has);
  if (owners.length > 0) return `belongs to the method ${owners.join(" and ")}, but this job uses ${method}`;
  return `is not a hyperparameter of ${method}${suggestion(name, known)}`;
}

/** The wire format for the OpenAPI document. `readHyperparameters` has better error messages. */
export const hyperparametersSchema = (method: Method) => {
  const entries = Object.entries(FIELDS[method]).map(([name, field]) => [
    name,
    z.union([field as z.ZodType, z.literal("auto")]).optional(),
  ]);
  return z.strictObject(Object.fromEntries(entries));
};
