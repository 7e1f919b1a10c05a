/**
 * The fields of each method's hyperparameters, with TRL's names: GRPOConfig, RLOOConfig, SFTConfig, DPOConfig, KTOConfig,
 * ORPOConfig of TRL 1.10 and TrainingArguments of transformers 5.16. `warmup_ratio`, which the latter merged into
 * `warmup_steps`, stays. Differences: `importance_sampling_correction`, `_mode`, `_clip_min`, `_clip_max` have no prefix
 * `vllm_`, and `dynamic_sampling`, `sampling`, `solved_reward`, `retire_after`, `replay_share`, `exact_sampling`, `max_turns`, `max_rollout_tokens` and the method `distill` are ours.
 */
import { z } from "zod";
import { later } from "../schema.ts";
import { AGGREGATIONS, SCALE_REWARDS } from "./loss/advantages.ts";
import { DISTILLATION_LOSSES } from "./loss/divergence.ts";
import { DPO_LOSSES } from "./loss/dpo.ts";
import { GRPO_LOSSES, SAMPLING_LEVELS } from "./loss/grpo.ts";
import { CORRECTION_MODES } from "./loss/importance.ts";
import { KTO_LOSSES } from "./loss/kto.ts";
import { SCHEDULES } from "./schedule.ts";

export const METHODS = ["grpo", "rloo", "distill", "sft", "dpo", "kto", "orpo"] as const;
export type Method = (typeof METHODS)[number];

/** Methods whose model writes completions, and learns from their rewards or from a teacher. */
export const ROLLED_METHODS = ["grpo", "rloo", "distill"] as const;
export type RolledMethod = (typeof ROLLED_METHODS)[number];
export const isRolled = (method: string | undefined): method is RolledMethod =>
  (ROLLED_METHODS as readonly (string | undefined)[]).includes(method);

const whole = (least: number, most: number) => later(() => z.int().min(least).max(most));
const share = z.number().min(0).max(1);
const below = (most: number) => later(() => z.number().min(0).lt(most));
const flag = z.boolean();
const positive = (most: number) => later(() => z.number().positive().max(most));
const atLeast0 = z.number().min(0).max(1e6);

export const LrSchedulerKwargs = later(() =>
  z.strictObject({
    num_cycles: positive(1000).optional(),
    min_lr: atLeast0.optional(),
    min_lr_rate: share.optional(),
    lr_end: atLeast0.optional(),
    power: positive(100).optional(),
    timescale: positive(1e9).optional(),
  }),
);

const OPTIMIZERS = ["adamw_torch", "adamw_8bit"] as const;
export type OptimizerName = (typeof OPTIMIZERS)[number];

/** Other names of AdamW mean the same here. Those with 8 bits, paged or not, are `adamw_8bit`. */
const optim = later(() =>
  z.preprocess(
    (value) => {
      if (typeof value !== "string" || !/(^|[._])adamw?($|_)/i.test(value)) return value;
      return /8bit$/i.test(value) ? "adamw_8bit" : "adamw_torch";
    },
    z.enum(OPTIMIZERS, {
      error:
        "must be adamw_torch or adamw_8bit: the optimizer is AdamW, with adam_beta1, adam_beta2, adam_epsilon and weight_decay",
    }),
  ),
);

const MOST_VARIABLES = 20;
const templateVariables = later(() =>
  z
    .record(z.string().min(1).max(100), z.union([z.string().max(10_000), z.number(), z.boolean()]))
    .refine((variables) => Object.keys(variables).length <= MOST_VARIABLES, `takes at most ${MOST_VARIABLES} variables`)
    .nullable(),
);

const common = {
  learning_rate: positive(1),
  num_train_epochs: positive(10_000),
  max_steps: whole(-1, 1e7).refine((steps) => steps !== 0, "must be -1 (as many as the epochs take) or at least 1"),
  per_device_train_batch_size: whole(1, 4096),
  gradient_accumulation_steps: whole(1, 4096),
  lr_scheduler_type: z.enum(SCHEDULES),
  lr_scheduler_kwargs: LrSchedulerKwargs.nullable(),
  warmup_ratio: share,
  warmup_steps: later(() => z.number().min(0).max(1e7)),
  max_grad_norm: atLeast0.describe("0 = no clipping"),
  weight_decay: atLeast0,
  optim: optim.describe("adamw_8bit = moments of 8 bits"),
  adam_beta1: below(1),
  adam_beta2: below(1),
  adam_epsilon: positive(1),
  gradient_checkpointing: flag,
  load_in_4bit: flag.describe("The matrices of the layers become NF4 on the GPU"),
  shuffle_dataset: flag,
  chat_template_kwargs: templateVariables.describe("Variables of the model's chat template, such as enable_thinking"),
  early_stopping_patience: whole(1, 10_000).nullable().describe("Evaluations without improvement; null = never"),
  early_stopping_threshold: atLeast0,
  metric_for_best_model: later(() => z.string().min(1).max(200).nullable()),
  greater_is_better: flag.nullable(),
  load_best_model_at_end: flag,
};

const scaleRewards = later(() =>
  z.preprocess((value) => (value === true ? "group" : value === false ? "none" : value), z.enum(SCALE_REWARDS)),
);

export const SAMPLINGS = ["uniform", "difficulty", "replay"] as const;
export type Sampling = (typeof SAMPLINGS)[number];

const rolled = {
  num_generations: whole(2, 1024),
  steps_per_generation: whole(1, 4096).nullable(),
  generation_batch_size: whole(2, 1e6).nullable(),
  max_completion_length: whole(1, 1e6),
  max_turns: whole(1, 1000).describe("Answers of one rollout in an environment"),
  max_rollout_tokens: whole(1, 1e6)
    .nullable()
    .describe("Tokens of one rollout behind its prompt, also those of tools; null = max_completion_length"),
  temperature: positive(10),
  top_p: positive(1),
  top_k: later(() => z.int().min(0).max(1e6).describe("0 = off")),
  min_p: share.nullable(),
  repetition_penalty: positive(10),
  beta: atLeast0,
  num_iterations: whole(1, 1000),
  epsilon: below(1),
  epsilon_high: atLeast0.nullable(),
  mask_truncated_completions: flag,
  dynamic_sampling: flag,
  sampling: z
    .enum(SAMPLINGS)
    .describe(
      "Prompts of a step: in the order of the rows (uniform), by the spread of their rewards so far (difficulty), or with a share of rare successes (replay)",
    ),
  solved_reward: later(() =>
    z.number().min(-1e6).max(1e6).nullable().describe("The least reward of a solved completion; null = unknown"),
  ),
  retire_after: whole(1, 1000).nullable().describe("Visits in a row with only solved completions; null = never"),
  replay_share: positive(1).describe("Most of a step's prompts that replay draws again"),
  exact_sampling: flag
    .nullable()
    .describe(
      "Log-probabilities of the sampler equal the trainer's bit for bit; null = on Hopper GPUs, if max_completion_length is from 256 to 1024",
    ),
};

const grpo = {
  ...common,
  ...rolled,
  delta: positive(1e6).nullable(),
  sapo_temperature_pos: positive(1000),
  sapo_temperature_neg: positive(1000),
  loss_type: z.enum(GRPO_LOSSES),
  scale_rewards: scaleRewards,
  importance_sampling_level: z.enum(SAMPLING_LEVELS),
  importance_sampling_correction: flag,
  importance_sampling_mode: z.enum(CORRECTION_MODES),
  importance_sampling_clip_min: atLeast0.nullable(),
  importance_sampling_clip_max: positive(1e6).nullable(),
  off_policy_mask_threshold: positive(1e6).nullable(),
  use_bias_correction_kl: flag,
  top_entropy_quantile: share.describe("The share of tokens with the highest entropy that have an advantage"),
  multi_objective_aggregation: z
    .enum(AGGREGATIONS)
    .describe("normalize_then_sum = each reward function is normalized within its group, then they are added"),
};

/** GRPO with the log-probabilities of a teacher beside the rewards, or instead of them. */
const distill = {
  ...grpo,
  distillation_weight: atLeast0.describe("Of the teacher's log-probabilities beside rewards, whose weight is 1"),
  distillation_clip: positive(1e6).describe(
    "sampled: the largest difference of log-probabilities that counts, in nats",
  ),
  distillation_loss: z
    .enum(DISTILLATION_LOSSES)
    .describe(
      "sampled = the teacher's probability of each token that was drawn; reverse_kl, forward_kl, jsd = over the vocabulary; hard = the teacher writes the completions",
    ),
  distillation_mix: later(() => z.number().gt(0).lt(1).describe("jsd: the teacher's share in the mixture")),
  distillation_top_k: whole(2, 1e6).nullable().describe("The student's most likely tokens that count; null = all"),
  distillation_prompt: later(() =>
    z
      .string()
      .min(1)
      .max(100_000)
      .nullable()
      .describe("The prompt that the teacher sees: {prompt} and {NAME} are the prompt and columns of the row"),
  ),
};

const rloo = {
  ...common,
  ...rolled,
  normalize_advantages: flag,
  reward_clip_range: later(() => z.tuple([z.number(), z.number()]).nullable()),
};

const sft = {
  ...common,
  max_length: whole(2, 1e7).nullable(),
  packing: flag,
  completion_only_loss: flag.nullable(),
  assistant_only_loss: flag,
  neftune_noise_alpha: positive(1000).nullable().describe("Null = no noise on the embeddings"),
};

const dpo = {
  ...common,
  beta: positive(1e6),
  loss_type: z.enum(DPO_LOSSES),
  label_smoothing: below(0.5),
  max_length: whole(2, 1e7).nullable(),
};

const kto = {
  ...common,
  beta: positive(1e6),
  loss_type: z.enum(KTO_LOSSES),
  desirable_weight: atLeast0,
  undesirable_weight: atLeast0,
  max_length: whole(2, 1e7).nullable(),
};

const orpo = {
  ...common,
  beta: positive(1e6),
  max_length: whole(2, 1e7).nullable(),
};

export const FIELDS = { grpo, rloo, distill, sft, dpo, kto, orpo } as const;
type Fields = typeof FIELDS;
export type Values<M extends Method> = { [K in keyof Fields[M]]: z.infer<Fields[M][K]> };
/** A user's input: any of the method's fields, with a value or "auto". */
export type HyperparameterInput<M extends Method> = { [K in keyof Fields[M]]?: z.infer<Fields[M][K]> | "auto" };

/** True if a method compares the model with its state before the training. ORPO and SFT never do. */
export function usesReference(method: Method, beta: number): boolean {
  return method === "dpo" || method === "kto" || (isRolled(method) && beta !== 0);
}
