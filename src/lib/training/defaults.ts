/** TRL's defaults (1.10, with transformers 5.16). Null: resolve.ts derives the value from the others, if at all. */
import type { Method, Values } from "./fields.ts";

/** Ten times higher for LoRA than for full training. */
export const LEARNING_RATES = {
  grpo: { full: 1e-6, lora: 1e-5 },
  sft: { full: 2e-5, lora: 2e-4 },
  dpo: { full: 1e-6, lora: 1e-5 },
  rloo: { full: 1e-6, lora: 1e-5 },
  /** Each token has a signal of its own, so the rate may be that of SFT. */
  distill: { full: 1e-5, lora: 1e-4 },
  kto: { full: 1e-6, lora: 1e-5 },
  orpo: { full: 1e-6, lora: 1e-5 },
} as const;

const COMMON = {
  num_train_epochs: 3,
  max_steps: -1,
  per_device_train_batch_size: 8,
  gradient_accumulation_steps: 1,
  lr_scheduler_type: "linear",
  lr_scheduler_kwargs: null,
  warmup_ratio: 0,
  warmup_steps: 0,
  max_grad_norm: 1,
  weight_decay: 0,
  optim: "adamw_torch",
  adam_beta1: 0.9,
  adam_beta2: 0.999,
  adam_epsilon: 1e-8,
  gradient_checkpointing: true,
  load_in_4bit: false,
  /** SFTConfig says false, but its trainer shuffles rows anyway. */
  shuffle_dataset: true,
  chat_template_kwargs: null,
  early_stopping_patience: null,
  early_stopping_threshold: 0,
  metric_for_best_model: null,
  greater_is_better: null,
  load_best_model_at_end: false,
} as const;

/** The clip range of the GSPO paper: a ratio of whole completions moves far less than one of tokens. */
export const GSPO_CLIP = { epsilon: 3e-4, epsilon_high: 4e-4 } as const;
/** The bound of the weight, as the ScaleRL paper has it. TRL's default would be `epsilon`, which scales all gradients down. */
export const CISPO_EPSILON_HIGH = 5;

type Defaults<M extends Method> = Omit<Values<M>, "learning_rate">;

const ROLLED = {
  num_generations: 8,
  steps_per_generation: null,
  generation_batch_size: null,
  max_completion_length: 512,
  max_turns: 8,
  max_rollout_tokens: null,
  temperature: 1,
  top_p: 1,
  top_k: 0,
  min_p: null,
  repetition_penalty: 1,
  num_iterations: 1,
  epsilon: 0.2,
  epsilon_high: null,
  mask_truncated_completions: false,
  dynamic_sampling: false,
  sampling: "uniform",
  solved_reward: null,
  retire_after: null,
  replay_share: 0.25,
  exact_sampling: null, // the trainer decides: it knows the GPU
} as const;

const grpo: Defaults<"grpo"> = {
  ...COMMON,
  ...ROLLED,
  beta: 0,
  delta: null,
  sapo_temperature_pos: 1,
  sapo_temperature_neg: 1.05,
  loss_type: "dapo",
  scale_rewards: "group",
  importance_sampling_level: "token",
  importance_sampling_correction: true,
  importance_sampling_mode: "sequence_mask",
  importance_sampling_clip_min: null,
  importance_sampling_clip_max: 3,
  off_policy_mask_threshold: null,
  use_bias_correction_kl: false,
  top_entropy_quantile: 1,
  multi_objective_aggregation: "sum_then_normalize",
};

const distill: Defaults<"distill"> = {
  ...grpo,
  num_generations: 2,
  distillation_weight: 1,
  distillation_clip: 10,
  distillation_loss: "sampled",
  distillation_mix: 0.5,
  distillation_top_k: null,
  distillation_prompt: null,
};

const rloo: Defaults<"rloo"> = {
  ...COMMON,
  ...ROLLED,
  num_generations: 2,
  beta: 0.05,
  normalize_advantages: false,
  reward_clip_range: null,
};

const sft: Defaults<"sft"> = {
  ...COMMON,
  max_length: 1024,
  packing: false,
  completion_only_loss: null,
  assistant_only_loss: false,
  neftune_noise_alpha: null,
};

const dpo: Defaults<"dpo"> = {
  ...COMMON,
  beta: 0.1,
  loss_type: "sigmoid",
  label_smoothing: 0,
  max_length: 1024,
};

const kto: Defaults<"kto"> = {
  ...COMMON,
  beta: 0.1,
  loss_type: "kto",
  desirable_weight: 1,
  undesirable_weight: 1,
  max_length: 1024,
};

const orpo: Defaults<"orpo"> = { ...COMMON, beta: 0.1, max_length: 1024 };

export const DEFAULTS = { grpo, rloo, distill, sft, dpo, kto, orpo };
