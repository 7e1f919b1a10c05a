/**
 * Hyperparameters as a user gives them: TRL's names (GRPOConfig, SFTConfig, DPOConfig of TRL 1.10, TrainingArguments
 * of transformers 5.16, and `warmup_ratio`, which the latter folded into `warmup_steps`). Strict: a typo costs GPU
 * hours. "auto" may stand anywhere; resolve.ts turns it, and what is absent, into values.
 *
 * What differs: `importance_sampling_correction`, `_mode`, `_clip_min`, `_clip_max` have no `vllm_` before them here,
 * and `dynamic_sampling` is ours.
 */
import { z } from "zod";
import { nearest } from "../text/nearest.ts";
import { SCALE_REWARDS } from "./loss/advantages.ts";
import { DPO_LOSSES } from "./loss/dpo.ts";
import { GRPO_LOSSES, SAMPLING_LEVELS } from "./loss/grpo.ts";
import { CORRECTION_MODES } from "./loss/importance.ts";
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
/** The hyperparameters of a request: any fields of the method, as a value or "auto". */
export type RequestedValues<M extends Method> = { [K in keyof Fields[M]]?: z.infer<Fields[M][K]> | "auto" };

/** A request is answered with this many problems at most: each unknown name costs a search for the one that was meant. */
export const MOST_PROBLEMS = 20;

/** One thing that is wrong. `path` begins with the field's name. */
export type Problem = { path: (string | number)[]; message: string };
export type Read<M extends Method> = { ok: true; given: RequestedValues<M> } | { ok: false; problems: Problem[] };

export function readHyperparameters<M extends Method>(method: M, raw: unknown): Read<M> {
  if (raw === undefined || raw === null) return { ok: true, given: {} };
  if (typeof raw !== "object" || Array.isArray(raw))
    return { ok: false, problems: [{ path: [], message: "must be an object" }] };
  const fields: Record<string, z.ZodType> = FIELDS[method];
  const given: Record<string, unknown> = {};
  const problems: Problem[] = [];
  for (const [name, value] of Object.entries(raw)) {
    if (problems.length >= MOST_PROBLEMS) break;
    if (!Object.hasOwn(fields, name)) {
      problems.push({ path: [shortened(name)], message: strangerWords(method, name) });
      continue;
    }
    const read = value === "auto" ? { success: true as const, data: value } : fields[name]!.safeParse(value);
    if (read.success) given[name] = read.data;
    else
      for (const issue of read.error.issues.slice(0, MOST_PROBLEMS))
        problems.push({ path: [name, ...place(issue)], message: words(issue) });
  }
  return problems.length > 0
    ? { ok: false, problems: problems.slice(0, MOST_PROBLEMS) }
    : { ok: true, given: given as RequestedValues<M> };
}

const place = (issue: z.core.$ZodIssue) => issue.path.map((part) => (typeof part === "number" ? part : String(part)));

function words(issue: z.core.$ZodIssue): string {
  if (issue.code !== "unrecognized_keys") return issue.message;
  const known = Object.keys(LrSchedulerKwargs.shape);
  const keys = issue.keys.slice(0, MOST_PROBLEMS);
  return keys.map((key) => `unknown: ${shortened(key)}${suggestion(key, known)}`).join("; ");
}

const LONGEST_SHOWN = 80;
const shortened = (name: string) => (name.length > LONGEST_SHOWN ? `${name.slice(0, LONGEST_SHOWN)}…` : name);

const suggestion = (name: string, names: Iterable<string>) => {
  const close = nearest(name, names);
  return close === undefined ? "" : `; did you mean ${close}?`;
};

/** Names people bring from TRL for things that are set elsewhere here, or need no setting. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  seed: "is a field of the job itself: seed",
  save_steps: "is a field of the job's checkpoint: checkpoint.save_steps",
  save_total_limit: "is a field of the job's checkpoint: checkpoint.keep_last",
  reward_weights: "are given with the job's reward_functions: weight",
  logging_steps: "needs no setting: every step is recorded",
  bf16: "needs no setting: precision follows the model and the device",
  fp16: "needs no setting: precision follows the model and the device",
  use_vllm: "needs no setting: completions are sampled by the engine itself",
};

function strangerWords(method: Method, name: string): string {
  const elsewhere = Object.hasOwn(ELSEWHERE, name) ? ELSEWHERE[name] : undefined;
  if (elsewhere !== undefined) return `${name} ${elsewhere}`;
  const owners = METHODS.filter((other) => Object.hasOwn(FIELDS[other], name));
  if (owners.length > 0) return `${name} belongs to the method ${owners.join(" and ")}, this job's is ${method}`;
  return `unknown hyperparameter ${shortened(name)}${suggestion(name, Object.keys(FIELDS[method]))}`;
}

/** The wire format, for the document. `readHyperparameters` says better what is wrong. */
export const hyperparametersSchema = (method: Method) => {
  const entries = Object.entries(FIELDS[method]).map(([name, field]) => [
    name,
    z.union([field as z.ZodType, z.literal("auto")]).optional(),
  ]);
  return z.strictObject(Object.fromEntries(entries));
};
