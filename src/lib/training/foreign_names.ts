/**
 * Names of Transformers (TrainingArguments), TRL (GRPOConfig, RLOOConfig, SFTConfig, DPOConfig, KTOConfig, ORPOConfig,
 * ModelConfig) and PEFT (LoraConfig), of their present and recent versions. A pasted config is accepted: names that do
 * nothing here are listed as ignored, with the reason. foreign_values.ts has names that are ignored only at some values.
 */
import { FIELDS, METHODS, type Method } from "./fields.ts";
import { FIXED_NAMES } from "./foreign_values.ts";

const names = (text: string) => text.trim().split(/\s+/);

/** `methods`: only these. A name that would change the training of another method is a mistake, not a leftover. */
type Group = { because: string; names: readonly string[]; methods?: readonly Method[] };

/** Methods whose rows have the answers. */
const WITH_ANSWERS: readonly Method[] = ["sft", "dpo", "kto", "orpo"];
const COMPARED: readonly Method[] = ["dpo", "kto", "orpo"];

const GROUPS: readonly Group[] = [
  {
    because: "the server keeps results, checkpoints, metrics and logs",
    names: names(`
      output_dir overwrite_output_dir run_name project trackio_space_id trackio_bucket_id trackio_static_space_id report_to
      disable_tqdm debug past_index logging_dir logging_strategy logging_first_step logging_steps logging_nan_inf_filter
      log_level log_level_replica log_on_each_node include_tokens_per_second include_num_input_tokens_seen
      skip_memory_metrics save_strategy save_safetensors save_on_each_node save_only_model enable_jit_checkpoint
      restore_callback_states_from_checkpoint ignore_data_skip
    `),
  },
  {
    because: "the server keeps samples of every step",
    names: names(`
      log_completions num_completions_to_print log_unique_prompts wandb_log_unique_prompts log_completions_hub_repo
      log_multimodal exp_name num_sample_generations
    `),
  },
  {
    because: "eval_dataset turns evaluation on",
    names: names(`
      do_train do_eval do_predict prediction_loss_only eval_strategy evaluation_strategy eval_steps eval_delay
      eval_on_start eval_accumulation_steps eval_do_concat_batches eval_use_gather_object per_device_eval_batch_size
      per_gpu_eval_batch_size batch_eval_metrics include_inputs_for_metrics include_for_metrics label_names
      jit_mode_eval bf16_full_eval fp16_full_eval num_generations_eval generate_during_eval eval_packing
    `),
  },
  {
    because: "the server chooses precision, kernels and memory",
    names: names(`
      bf16 fp16 tf32 fp16_opt_level fp16_backend half_precision_backend torch_dtype dtype attn_implementation
      torch_compile torch_compile_backend torch_compile_mode torchdynamo torch_empty_cache_steps use_liger_kernel
      liger_kernel_config use_liger use_liger_loss use_legacy_prediction_loop use_cache gradient_checkpointing_kwargs
      gradient_checkpointing_use_reentrant activation_offloading auto_find_batch_size padding_free pad_to_multiple_of
      no_cuda use_cpu use_mps_device use_ipex full_determinism disable_dropout cast_lm_head_to_fp32
      local_rollout_forward_batch_size
    `),
  },
  {
    because: "one process trains, and it reads the rows itself",
    names: names(`
      xpu_backend tpu_num_cores tpu_metrics_debug tp_size local_rank ddp_backend ddp_find_unused_parameters
      ddp_bucket_cap_mb ddp_broadcast_buffers ddp_static_graph ddp_timeout fsdp fsdp_config fsdp_min_num_params
      fsdp_transformer_layer_cls_to_wrap sharded_ddp deepspeed accelerator_config parallelism_config
      average_tokens_across_devices dispatch_batches split_batches ray_scope mp_parameters ds3_gather_for_generation
      dataloader_drop_last dataloader_num_workers dataloader_prefetch_factor dataloader_pin_memory dataloader_in_order
      dataloader_persistent_workers dataloader_multiprocessing_context group_by_length length_column_name
      train_sampling_strategy remove_unused_columns data_seed ignore_bias_buffers
    `),
  },
  {
    because: "the server has its own engine for completions",
    names: names(`
      use_vllm vllm_mode vllm_model_impl vllm_device vllm_dtype vllm_gpu_memory_utilization vllm_max_model_len
      vllm_max_model_length vllm_tensor_parallel_size vllm_enable_prefix_caching vllm_enable_sleep_mode
      vllm_server_host vllm_server_port vllm_server_base_url vllm_server_timeout vllm_group_port cache_implementation
      use_transformers_paged use_transformers_continuous_batching transformers_continuous_batching_config
    `),
  },
  {
    because: "the method draws no completions",
    methods: WITH_ANSWERS,
    names: names(`
      generation_kwargs vllm_guided_decoding_regex vllm_structured_outputs_regex vllm_importance_sampling_correction
      vllm_importance_sampling_mode vllm_importance_sampling_cap vllm_importance_sampling_clip_min
      vllm_importance_sampling_clip_max
    `),
  },
  {
    because: "model, tokenizer and quantization come from the file of base_model",
    names: names(`
      model_name_or_path model_revision model_init_kwargs ref_model_init_kwargs trust_remote_code
      load_in_8bit bnb_4bit_compute_dtype bnb_4bit_quant_storage use_bnb_nested_quant
      chat_template_path pad_token eos_token router_aux_loss_coef padding_value label_pad_token_id
      is_encoder_decoder model_adapter_name ref_adapter_name force_use_ref_model base_model_attribute_name
      use_logits_to_keep use_num_logits_to_keep precompute_ref_log_probs precompute_ref_batch_size
    `),
  },
  {
    because: "the rows come from the job's dataset",
    names: names(`
      dataset_name dataset_config dataset_train_split dataset_test_split dataset_streaming dataset_text_field
      dataset_kwargs dataset_num_proc dataset_batch_size num_of_sequences chars_per_token
    `),
  },
  { because: "packing has one strategy here", names: ["packing_strategy"] },
  { because: "prompts are never cut; only max_length limits a row", names: ["max_prompt_length", "truncation_mode"] },
  {
    because: "prompts are never cut; only max_length limits a row",
    methods: COMPARED,
    names: ["max_completion_length", "max_target_length"],
  },
  {
    because: "hub_repo of the job says where its result is pushed",
    names: names(`
      push_to_hub push_to_hub_model_id push_to_hub_organization push_to_hub_token hub_model_id hub_strategy hub_token
      hub_private_repo hub_always_push hub_revision
    `),
  },
  {
    because: "they belong to a setting that is off or a loss that is not there",
    names: ["ref_model_mixup_alpha", "ref_model_sync_steps"],
  },
  {
    because: "they belong to a setting that is off or a loss that is not there",
    methods: ["grpo", "distill"],
    names: names(`
      vespo_k_pos vespo_lambda_pos vespo_k_neg vespo_lambda_neg entropy_coef_min entropy_coef_max entropy_coef_delta
      entropy_target sapo_temperature_neg sapo_temperature_pos
    `),
  },
  {
    because: "they belong to a setting that is off or a loss that is not there",
    methods: ["dpo"],
    names: ["f_alpha_divergence_coef", "discopop_tau"],
  },
];

const LORA_GROUPS: readonly Group[] = [
  {
    because: "they describe the file of an adapter, which the server writes itself",
    names: names(`
      task_type peft_type peft_version auto_mapping base_model_name_or_path revision inference_mode fan_in_fan_out
      use_peft lora_task_type runtime_config merge_weights enable_lora megatron_core qalora_group_size
    `),
  },
  {
    because: "the base model keeps the quantization of its file",
    names: ["load_in_4bit", "load_in_8bit", "loftq_config"],
  },
];

const applies = (method: Method, { methods }: Group) => methods === undefined || methods.includes(method);

const ignoredOf = (method: Method): ReadonlySet<string> =>
  new Set(
    [
      ...GROUPS.filter((group) => applies(method, group)).flatMap((group) => group.names),
      ...FIXED_NAMES[method],
    ].filter((name) => !Object.hasOwn(FIELDS[method], name)),
  );

/** By method. A name that the method has itself is never in its list. */
export const IGNORED = Object.fromEntries(METHODS.map((method) => [method, ignoredOf(method)])) as Record<
  Method,
  ReadonlySet<string>
>;

/** PEFT's LoraConfig, and what TRL's ModelConfig has about LoRA. */
export const IGNORED_LORA: ReadonlySet<string> = new Set([
  ...LORA_GROUPS.flatMap((group) => group.names),
  ...FIXED_NAMES.lora,
]);

const reasonsOf = (groups: readonly Group[]): ReadonlyMap<string, string> =>
  new Map(groups.flatMap(({ because, names: list }) => list.map((name) => [name, because] as const)));
const REASONS = {
  ...(Object.fromEntries(
    METHODS.map((method) => [method, reasonsOf(GROUPS.filter((group) => applies(method, group)))]),
  ) as Record<Method, ReadonlyMap<string, string>>),
  lora: reasonsOf(LORA_GROUPS),
};
const AT_DEFAULT = "their values change nothing";

/** One line: `ignored here: output_dir, report_to (the server keeps …); bf16 (the server chooses …)`. */
export function ignoredText(of: keyof typeof REASONS, ignored: readonly string[]): string {
  const groups = Map.groupBy(ignored, (name) => REASONS[of].get(name) ?? AT_DEFAULT);
  return `ignored here: ${[...groups].map(([because, list]) => `${list.join(", ")} (${because})`).join("; ")}`;
}

/** Other names of the same setting. The value means exactly the same. */
export const ALIASES: Readonly<Record<string, string>> = {
  max_seq_length: "max_length",
  per_gpu_train_batch_size: "per_device_train_batch_size",
  vllm_importance_sampling_correction: "importance_sampling_correction",
  vllm_importance_sampling_mode: "importance_sampling_mode",
  vllm_importance_sampling_cap: "importance_sampling_clip_max",
  vllm_importance_sampling_clip_min: "importance_sampling_clip_min",
  vllm_importance_sampling_clip_max: "importance_sampling_clip_max",
  rloo_k: "num_generations",
  response_length: "max_completion_length",
  num_ppo_epochs: "num_iterations",
  cliprange: "epsilon",
  kl_coef: "beta",
  normalize_advantage: "normalize_advantages",
};
export const LORA_ALIASES: Readonly<Record<string, string>> = {
  lora_r: "r",
  lora_alpha: "alpha",
  lora_dropout: "dropout",
  lora_target_modules: "target_modules",
};

const inLora = (name: string) => [name, `is set in the job's lora: lora.${name}`];

/** Names of settings that are in another place of the request. */
export const ELSEWHERE: Readonly<Record<string, string>> = {
  ...Object.fromEntries(
    [...IGNORED_LORA].filter((name) => !GROUPS.some((group) => group.names.includes(name))).map(inLora),
  ),
  seed: "is set on the job itself: seed",
  save_steps: "is set in the job's checkpoint: checkpoint.save_steps",
  save_total_limit: "is set in the job's checkpoint: checkpoint.keep_last",
  reward_weights: "are set in the job's reward_functions: weight",
  reward_funcs: "are set on the job itself: reward_source or reward_functions",
  resume_from_checkpoint: "is set on the job itself: resume_from",
  peft_config: "is set on the job itself: lora",
  use_peft: "is set on the job itself: lora, where null trains all weights",
  r: "is set in the job's lora: lora.r",
  lora_r: "is set in the job's lora: lora.r",
  lora_alpha: "is set in the job's lora: lora.alpha",
  lora_dropout: "is set in the job's lora: lora.dropout",
  lora_target_modules: "is set in the job's lora: lora.target_modules",
  target_modules: "is set in the job's lora: lora.target_modules",
  use_rslora: "is set in the job's lora: lora.use_rslora",
};

/** Every name with a meaning somewhere. A suggestion never replaces one of them by another. */
export const FOREIGN_NAMES: ReadonlySet<string> = new Set([
  ...METHODS.flatMap((method) => [...Object.keys(FIELDS[method]), ...IGNORED[method]]),
  ...IGNORED_LORA,
  ...Object.keys(ELSEWHERE),
]);

/** Common other spellings, for suggestions. */
export const MEANT: Readonly<Record<string, string>> = {
  lr: "learning_rate",
  epochs: "num_train_epochs",
  num_epochs: "num_train_epochs",
  n_epochs: "num_train_epochs",
  steps: "max_steps",
  batch_size: "per_device_train_batch_size",
  train_batch_size: "per_device_train_batch_size",
  grad_accum: "gradient_accumulation_steps",
  gradient_accumulation: "gradient_accumulation_steps",
  scheduler: "lr_scheduler_type",
  lr_scheduler: "lr_scheduler_type",
  warmup: "warmup_ratio",
  clip_grad: "max_grad_norm",
  grad_clip: "max_grad_norm",
  max_tokens: "max_completion_length",
  max_new_tokens: "max_completion_length",
  group_size: "num_generations",
  kl_beta: "beta",
  clip_range: "epsilon",
  context_length: "max_length",
  rank: "r",
  scaling: "alpha",
  modules: "target_modules",
};
