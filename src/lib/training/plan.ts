/** Converts resolved hyperparameters to each algorithm's options. Only this file knows both vocabularies. */

import { isRolled, type Method, type RolledMethod } from "./fields.ts";
import type { DpoOptions } from "./loss/dpo.ts";
import type { GrpoOptions, lossScales } from "./loss/grpo.ts";
import type { KtoOptions } from "./loss/kto.ts";
import type { Resolved } from "./resolve.ts";
import { type Schedule, totalGrpoSteps, totalSteps, warmupSteps } from "./schedule.ts";

export function grpoOptions(values: Resolved<"grpo"> | Resolved<"distill">): GrpoOptions {
  const { loss_type: loss } = values;
  return {
    surrogate: loss === "cispo" || loss === "sapo" ? loss : "clip",
    sapoTemperatures: { positive: values.sapo_temperature_pos, negative: values.sapo_temperature_neg },
    epsilon: values.epsilon,
    epsilonHigh: values.epsilon_high,
    delta: values.delta,
    beta: values.beta,
    importanceSamplingLevel: values.importance_sampling_level,
    correction: values.importance_sampling_correction
      ? {
          mode: values.importance_sampling_mode,
          clipMin: values.importance_sampling_clip_min,
          clipMax: values.importance_sampling_clip_max,
        }
      : null,
    correctsKl: values.use_bias_correction_kl,
    offPolicyThreshold: values.off_policy_mask_threshold,
    distillation:
      "distillation_weight" in values && values.distillation_loss === "sampled"
        ? { weight: values.distillation_weight, clip: values.distillation_clip }
        : null,
  };
}

export function scaleOptions(values: Resolved<"grpo"> | Resolved<"distill">): Parameters<typeof lossScales>[1] {
  return {
    lossType: values.loss_type,
    batchSize: values.per_device_train_batch_size,
    maxCompletionLength: Math.max(values.max_completion_length, values.max_rollout_tokens ?? 0),
  };
}

export function dpoOptions(values: Resolved<"dpo">): DpoOptions {
  return { lossType: values.loss_type, beta: values.beta, labelSmoothing: values.label_smoothing };
}

export function ktoOptions(values: Resolved<"kto">): KtoOptions {
  return {
    lossType: values.loss_type,
    beta: values.beta,
    desirableWeight: values.desirable_weight,
    undesirableWeight: values.undesirable_weight,
  };
}

/** Optimizer steps of a whole job. With `packing`, `rows` are packed rows. */
export function stepsOf<M extends Method>(method: M, values: Resolved<M>, rows: number): number {
  if (isRolled(method)) return totalGrpoSteps({ ...(values as Resolved<RolledMethod>), rows });
  return totalSteps({ ...(values as Resolved<"sft">), rows });
}

export function scheduleOf(values: Resolved<Method>, steps: number): Schedule {
  return {
    type: values.lr_scheduler_type,
    learningRate: values.learning_rate,
    warmupSteps: warmupSteps(steps, values),
    totalSteps: steps,
    shape: values.lr_scheduler_kwargs ?? {},
  };
}
