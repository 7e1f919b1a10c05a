/**
 * Names of TRL, PEFT and Transformers that change the training and that are not built here. At the values in this table
 * they change nothing, so a dumped config passes. Any other value is rejected with what to do: training something else
 * in silence is worse.
 */
import type { Method } from "./fields.ts";

/** `fix`: what to do, after "is not supported here: ". */
type Fixed = { neutral: readonly unknown[] | ((value: unknown) => boolean); fix: string; methods?: readonly Method[] };

const OFF = [null, false, 0, "", "none", "no"];
const isEmpty = (value: unknown) =>
  OFF.includes(value as null) || (typeof value === "object" && value !== null && Object.keys(value).length === 0);
const remove = "remove it";

const GRPO: readonly Method[] = ["grpo", "distill"];
const DISTILL: readonly Method[] = ["distill"];
const RLOO: readonly Method[] = ["rloo"];
const DPO: readonly Method[] = ["dpo"];
const ROLLED: readonly Method[] = ["grpo", "rloo", "distill"];
const REFERENCED: readonly Method[] = ["grpo", "rloo", "distill", "dpo", "kto"];

const ADAM = "the optimizer is AdamW, with adam_beta1, adam_beta2, adam_epsilon and weight_decay";
const SAMPLING = "give temperature, top_p, top_k and min_p themselves";
const LOSS = "remove it, or choose another loss_type";

const FIXED: Readonly<Record<string, Fixed>> = {
  optim_args: { neutral: isEmpty, fix: ADAM },
  optim_target_modules: { neutral: isEmpty, fix: ADAM },
  adafactor: { neutral: OFF, fix: ADAM },
  label_smoothing_factor: { neutral: OFF, fix: remove },
  neftune_noise_alpha: { neutral: OFF, fix: "only sft adds noise: remove it", methods: [...REFERENCED, "orpo"] },
  bnb_4bit_quant_type: { neutral: [null, "nf4"], fix: "load_in_4bit gives nf4: remove it" },
  quantization_config: {
    neutral: isEmpty,
    fix: "the base model keeps the quantization of its file: choose a quantized file as base_model",
  },
  tools: { neutral: isEmpty, fix: "give tools in the rows, as the column tools" },
  sync_ref_model: { neutral: OFF, fix: "the reference is the model before the training", methods: REFERENCED },
  loss_type: { neutral: [null, "nll", "chunked_nll"], fix: "sft has the loss nll alone", methods: ["sft"] },
  generation_kwargs: { neutral: isEmpty, fix: SAMPLING, methods: ROLLED },
  vllm_guided_decoding_regex: { neutral: isEmpty, fix: "score the form of an answer with a reward", methods: ROLLED },
  vllm_structured_outputs_regex: {
    neutral: isEmpty,
    fix: "score the form of an answer with a reward",
    methods: ROLLED,
  },
  max_tool_calling_iterations: {
    neutral: [null],
    fix: "set max_turns, which counts answers: one more than rounds of calls",
    methods: GRPO,
  },
  entropy_coef: { neutral: OFF, fix: remove, methods: GRPO },
  use_adaptive_entropy: { neutral: OFF, fix: remove, methods: GRPO },
  total_episodes: { neutral: [null], fix: "set max_steps or num_train_epochs", methods: RLOO },
  num_mini_batches: { neutral: [null, 1], fix: "set gradient_accumulation_steps", methods: RLOO },
  normalize_reward: { neutral: OFF, fix: "set normalize_advantages", methods: RLOO },
  whiten_rewards: { neutral: OFF, fix: "set normalize_advantages", methods: RLOO },
  token_level_kl: { neutral: OFF, fix: remove, methods: RLOO },
  missing_eos_penalty: { neutral: OFF, fix: "score it with a reward", methods: RLOO },
  stop_token: { neutral: [null, "eos"], fix: remove, methods: RLOO },
  stop_token_id: { neutral: [null], fix: remove, methods: RLOO },
  reward_model_path: { neutral: isEmpty, fix: "rewards are code: set reward_functions on the job", methods: RLOO },
  lmbda: { neutral: [null, 1], fix: "the student writes all completions: remove it", methods: DISTILL },
  seq_kd: { neutral: OFF, fix: "train on the teacher's answers with sft: remove it", methods: DISTILL },
  reference_free: { neutral: OFF, fix: LOSS, methods: DPO },
  rpo_alpha: { neutral: OFF, fix: LOSS, methods: DPO },
  ld_alpha: { neutral: [null, 1], fix: LOSS, methods: DPO },
  use_weighting: { neutral: OFF, fix: LOSS, methods: DPO },
  loss_weights: { neutral: [null], fix: LOSS, methods: DPO },
  f_divergence_type: { neutral: [null, "reverse_kl", "FDivergenceType.REVERSE_KL"], fix: LOSS, methods: DPO },
};

const EMPTY_LORA = `
  exclude_modules modules_to_save lora_modules_to_save layers_to_transform layers_pattern rank_pattern alpha_pattern
  megatron_config trainable_token_indices eva_config corda_config lora_ga_config velora_config monteclora_config
  kasa_config arrow_config use_dora use_qalora use_bdlora layer_replication lora_bias target_parameters
  lora_target_parameters ensure_weight_tying alora_invocation_tokens bias
`;
const FIXED_LORA: Readonly<Record<string, Fixed>> = {
  ...Object.fromEntries(
    EMPTY_LORA.trim()
      .split(/\s+/)
      .map((name) => [name, { neutral: isEmpty, fix: "the adapter is a plain LoRA of target_modules: remove it" }]),
  ),
  init_lora_weights: { neutral: [null, true, "gaussian"], fix: "the adapter begins at zero: remove it" },
};

const namesFor = (method: Method) =>
  Object.entries(FIXED).flatMap(([name, { methods }]) =>
    methods === undefined || methods.includes(method) ? [name] : [],
  );

export const FIXED_NAMES = {
  grpo: namesFor("grpo"),
  rloo: namesFor("rloo"),
  distill: namesFor("distill"),
  sft: namesFor("sft"),
  dpo: namesFor("dpo"),
  kto: namesFor("kto"),
  orpo: namesFor("orpo"),
  lora: Object.keys(FIXED_LORA),
} satisfies Record<Method | "lora", readonly string[]>;

/** Why a value of an ignored name cannot be ignored. */
export const refusalOf = (method: Method, name: string, value: unknown): string | undefined =>
  FIXED_NAMES[method].includes(name) ? refusalIn(FIXED, name, value) : undefined;
export const loraRefusalOf = (name: string, value: unknown): string | undefined => refusalIn(FIXED_LORA, name, value);

function refusalIn(table: Readonly<Record<string, Fixed>>, name: string, value: unknown): string | undefined {
  const fixed = Object.hasOwn(table, name) ? table[name] : undefined;
  if (!fixed) return undefined;
  const { neutral, fix } = fixed;
  const isNeutral = typeof neutral === "function" ? neutral(value) : neutral.includes(value);
  return isNeutral ? undefined : `is not supported here: ${fix}`;
}

/** Values as other versions write them: `loss_type: ["sigmoid"]`, `top_k: null`, and null for a name that is not set. */
export function withOwnValues(raw: unknown): unknown {
  if (typeof raw !== "object" || raw === null || Array.isArray(raw)) return raw;
  const values: Record<string, unknown> = { ...raw };
  const loss = values["loss_type"];
  if (Array.isArray(loss) && loss.length === 1) values["loss_type"] = loss[0];
  if (values["top_k"] === null) values["top_k"] = 0;
  for (const name of ["vllm_importance_sampling_cap", "target_modules", "lora_target_modules"])
    if (values[name] === null) delete values[name];
  return values;
}
