/**
 * Names of Transformers (TrainingArguments), TRL (GRPOConfig, SFTConfig, DPOConfig, ModelConfig) and PEFT (LoraConfig)
 * that have no effect here. A pasted config is accepted, and the names are listed as ignored. Names that have a meaning
 * here are never in these lists.
 */
const names = (text: string) => text.trim().split(/\s+/);

/** Transformers: where and how a run computes, logs, saves and evaluates. */
const TRAINING_ARGUMENTS = names(`
  output_dir overwrite_output_dir run_name project trackio_space_id report_to disable_tqdm debug past_index
  do_train do_eval do_predict prediction_loss_only
  eval_strategy evaluation_strategy eval_steps eval_delay eval_on_start eval_accumulation_steps eval_do_concat_batches
  eval_use_gather_object per_device_eval_batch_size per_gpu_train_batch_size per_gpu_eval_batch_size batch_eval_metrics
  include_inputs_for_metrics include_for_metrics label_names jit_mode_eval
  logging_dir logging_strategy logging_first_step logging_steps logging_nan_inf_filter log_level log_level_replica
  log_on_each_node include_tokens_per_second include_num_input_tokens_seen skip_memory_metrics
  save_strategy save_safetensors save_on_each_node save_only_model enable_jit_checkpoint
  restore_callback_states_from_checkpoint ignore_data_skip full_determinism data_seed
  bf16 fp16 tf32 bf16_full_eval fp16_full_eval fp16_opt_level fp16_backend half_precision_backend
  no_cuda use_cpu use_mps_device use_ipex xpu_backend tpu_num_cores tpu_metrics_debug
  local_rank ddp_backend ddp_find_unused_parameters ddp_bucket_cap_mb ddp_broadcast_buffers ddp_timeout
  fsdp fsdp_config fsdp_min_num_params fsdp_transformer_layer_cls_to_wrap sharded_ddp deepspeed accelerator_config
  parallelism_config average_tokens_across_devices dispatch_batches split_batches ray_scope mp_parameters
  torch_compile torch_compile_backend torch_compile_mode torchdynamo torch_empty_cache_steps
  use_liger_kernel liger_kernel_config use_legacy_prediction_loop use_cache gradient_checkpointing_kwargs
  optim optim_args optim_target_modules adafactor label_smoothing_factor auto_find_batch_size
  dataloader_drop_last dataloader_num_workers dataloader_prefetch_factor dataloader_pin_memory
  dataloader_persistent_workers group_by_length length_column_name train_sampling_strategy remove_unused_columns
  push_to_hub push_to_hub_model_id push_to_hub_organization push_to_hub_token hub_model_id hub_strategy hub_token
  hub_private_repo hub_always_push hub_revision
`);

/** TRL: the parts that its three trainers share. */
const TRL = names(`
  model_init_kwargs ref_model_init_kwargs disable_dropout activation_offloading chat_template_path
  chat_template_kwargs dataset_name dataset_config dataset_train_split dataset_test_split dataset_streaming
  dataset_text_field dataset_kwargs dataset_num_proc dataset_batch_size max_prompt_length truncation_mode
  sync_ref_model ref_model_mixup_alpha ref_model_sync_steps use_liger use_liger_loss trust_remote_code model_revision
  model_name_or_path torch_dtype dtype attn_implementation load_in_4bit load_in_8bit bnb_4bit_quant_type
  bnb_4bit_compute_dtype bnb_4bit_quant_storage use_bnb_nested_quant pad_token eos_token pad_to_multiple_of
  padding_free tools
`);

const GRPO = names(`
  num_generations_eval ds3_gather_for_generation generation_kwargs cache_implementation use_transformers_paged
  use_vllm vllm_mode vllm_model_impl vllm_device vllm_dtype vllm_gpu_memory_utilization vllm_max_model_len
  vllm_max_model_length vllm_tensor_parallel_size vllm_enable_prefix_caching vllm_enable_sleep_mode
  vllm_guided_decoding_regex vllm_structured_outputs_regex vllm_server_host vllm_server_port vllm_server_base_url
  vllm_server_timeout vllm_group_port cast_lm_head_to_fp32 top_entropy_quantile use_bias_correction_kl
  off_policy_mask_threshold multi_objective_aggregation
  max_tool_calling_iterations log_completions num_completions_to_print log_unique_prompts wandb_log_unique_prompts
  log_completions_hub_repo neftune_noise_alpha
`);

const SFT = names(`
  packing_strategy eval_packing num_of_sequences chars_per_token
`);

const DPO = names(`
  max_completion_length max_target_length model_adapter_name ref_adapter_name force_use_ref_model
  base_model_attribute_name use_logits_to_keep use_num_logits_to_keep padding_value label_pad_token_id
  precompute_ref_log_probs precompute_ref_batch_size reference_free f_divergence_type f_alpha_divergence_coef
  use_weighting discopop_tau loss_weights rpo_alpha ld_alpha generate_during_eval is_encoder_decoder neftune_noise_alpha
`);

const KTO = names(`
  max_completion_length model_adapter_name ref_adapter_name padding_value label_pad_token_id generate_during_eval
  is_encoder_decoder precompute_ref_log_probs precompute_ref_batch_size router_aux_loss_coef neftune_noise_alpha
`);

const ORPO = names(`
  neftune_noise_alpha max_completion_length padding_value label_pad_token_id generate_during_eval is_encoder_decoder
`);

const SHARED = [...TRAINING_ARGUMENTS, ...TRL];

/** By method. A name of another method's config is a mistake, not a leftover of a pasted one. */
export const IGNORED = {
  grpo: new Set([...SHARED, ...GRPO]),
  sft: new Set([...SHARED, ...SFT]),
  dpo: new Set([...SHARED, ...DPO]),
  rloo: new Set([...SHARED, ...GRPO]),
  kto: new Set([...SHARED, ...KTO]),
  orpo: new Set([...SHARED, ...ORPO]),
} as const;

/** PEFT's LoraConfig, and what TRL's ModelConfig has about LoRA. */
export const IGNORED_LORA: ReadonlySet<string> = new Set(
  names(`
  task_type peft_type peft_version auto_mapping base_model_name_or_path revision inference_mode exclude_modules
  fan_in_fan_out bias modules_to_save init_lora_weights layers_to_transform layers_pattern rank_pattern alpha_pattern
  megatron_config megatron_core trainable_token_indices loftq_config eva_config corda_config lora_ga_config use_dora
  use_qalora qalora_group_size use_bdlora layer_replication runtime_config lora_bias target_parameters arrow_config
  ensure_weight_tying alora_invocation_tokens use_peft lora_task_type lora_modules_to_save lora_target_parameters
  load_in_4bit load_in_8bit
`),
);

/** Other names of the same setting. The value means exactly the same. */
export const ALIASES: Readonly<Record<string, string>> = {
  max_seq_length: "max_length",
  vllm_importance_sampling_correction: "importance_sampling_correction",
  vllm_importance_sampling_mode: "importance_sampling_mode",
  vllm_importance_sampling_cap: "importance_sampling_clip_max",
  vllm_importance_sampling_clip_min: "importance_sampling_clip_min",
  vllm_importance_sampling_clip_max: "importance_sampling_clip_max",
};
export const LORA_ALIASES: Readonly<Record<string, string>> = {
  lora_r: "r",
  lora_alpha: "alpha",
  lora_dropout: "dropout",
  lora_target_modules: "target_modules",
};

/** Names of settings that are in another place of the request. */
export const ELSEWHERE: Readonly<Record<string, string>> = {
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
  kl_coef: "beta",
  kl_beta: "beta",
  clip_range: "epsilon",
  cliprange: "epsilon",
  context_length: "max_length",
  rank: "r",
  scaling: "alpha",
  modules: "target_modules",
};
