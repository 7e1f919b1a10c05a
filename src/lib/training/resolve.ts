/**
 * Resolves a user's input to every hyperparameter with its value. An absent field gets TRL's default (a learning rate
 * ten times higher for LoRA), adapted to the model's context and whole groups. "auto" is our own choice from the facts
 * if that is better than the default. Impossible values are rejected with a message: only values that the user did not
 * give are changed.
 */
import { z } from "zod";
import { later } from "../schema.ts";
import { metricFault, resolveBest } from "./best.ts";
import { CISPO_EPSILON_HIGH, DEFAULTS, GSPO_CLIP, LEARNING_RATES } from "./defaults.ts";
import { FIELDS, type HyperparameterInput, isRolled, type Method, type RolledMethod, type Values } from "./fields.ts";
import type { Problem } from "./hyperparameters.ts";
import { divergenceOf } from "./loss/divergence.ts";
import { POLYNOMIAL_END, totalGrpoSteps, totalSteps } from "./schedule.ts";

export type Facts = {
  lora: boolean;
  /** Rows of the dataset; for GRPO these are the prompts. */
  rows: number;
  /** Parameters of the base model. */
  parameters: number;
  contextLength: number;
  /** True if rows have a separate prompt and completion, so that the loss can leave the prompt out. */
  hasCompletions: boolean;
};

/** The prefix of held-out metrics may exceed the limit of a name. */
const best = () => ({ metric_for_best_model: z.string().nullable() });
const rolled = () => ({
  ...best(),
  steps_per_generation: z.int().positive(),
  generation_batch_size: z.int().positive(),
  min_p: z.number(),
  epsilon_high: z.number(),
});
const overRows = () => ({ ...best(), max_length: z.int().positive() });

const RESOLVED = {
  grpo: later(() => z.object({ ...FIELDS.grpo, ...rolled() })),
  rloo: later(() => z.object({ ...FIELDS.rloo, ...rolled() })),
  distill: later(() => z.object({ ...FIELDS.distill, ...rolled() })),
  sft: later(() => z.object({ ...FIELDS.sft, ...overRows(), completion_only_loss: z.boolean() })),
  dpo: later(() => z.object({ ...FIELDS.dpo, ...overRows() })),
  kto: later(() => z.object({ ...FIELDS.kto, ...overRows() })),
  orpo: later(() => z.object({ ...FIELDS.orpo, ...overRows() })),
};

/** All values are decided, as TRL has them after its own defaults. */
export type Resolved<M extends Method> = z.infer<(typeof RESOLVED)[M]>;

/** Reads the stored values of a job. A job of an older version lacks some fields, and goes on as it began. */
export function readResolved<M extends Method>(method: M, stored: Readonly<Record<string, unknown>>): Resolved<M> {
  const schemas: { [K in Method]: z.ZodType<Resolved<K>> } = RESOLVED;
  return schemas[method].parse({ ...DEFAULTS[method], exact_sampling: false, ...stored });
}

export type Resolution<M extends Method> = { ok: true; values: Resolved<M> } | { ok: false; problems: Problem[] };

type Bag = Record<string, unknown>;

export function resolveHyperparameters<M extends Method>(
  method: M,
  input: HyperparameterInput<M>,
  facts: Facts,
): Resolution<M> {
  const requested = input as Bag;
  const values: Bag = { ...DEFAULTS[method], learning_rate: LEARNING_RATES[method][facts.lora ? "lora" : "full"] };
  for (const [name, value] of Object.entries(requested)) if (value !== "auto") values[name] = value;
  const isFree = (name: string) => requested[name] === undefined || requested[name] === "auto";
  const isAuto = (name: string) => requested[name] === "auto";

  if (isAuto("learning_rate")) values["learning_rate"] = autoLearningRate(values["learning_rate"] as number, facts);
  if (isAuto("warmup_ratio")) values["warmup_ratio"] = 0.05;
  if (isRolled(method)) fitGroups(values, { isFree, isAuto, rows: facts.rows });
  else {
    const least = method === "kto" ? 2 : 1;
    if (isAuto("per_device_train_batch_size")) values["per_device_train_batch_size"] = clamp(facts.rows / 10, least, 8);
    const batch = values["per_device_train_batch_size"] as number;
    if (isAuto("gradient_accumulation_steps"))
      values["gradient_accumulation_steps"] = clamp(16 / batch, 1, facts.rows / (10 * batch));
  }
  fitLengths(values, facts, isFree);
  if (method === "sft") values["completion_only_loss"] ??= facts.hasCompletions;
  if (isAuto("num_train_epochs")) values["num_train_epochs"] = autoEpochs(method, values, facts.rows);

  Object.assign(values, resolveBest(method, values as Values<"sft">));

  const problems = conflicts(method, values, facts);
  return problems.length > 0 ? { ok: false, problems } : { ok: true, values: values as Resolved<M> };
}

/** A small model needs a larger rate: scaled by the square root of its size, below a billion parameters. */
function autoLearningRate(usual: number, { parameters }: Facts): number {
  const factor = Math.min(30, Math.sqrt(1e9 / Math.min(1e9, Math.max(1, parameters))));
  return Number((usual * factor).toPrecision(2));
}

/** Enough for 200 steps, at most 10; for SFT, which overfits soon, 3. */
function autoEpochs(method: Method, values: Bag, rows: number): number {
  const plan = { ...values, rows, num_train_epochs: 1, max_steps: -1 } as unknown as Parameters<
    typeof totalGrpoSteps
  >[0];
  const steps = isRolled(method) ? totalGrpoSteps(plan) : totalSteps(plan);
  return Math.min(Math.max(1, Math.ceil(200 / steps)), method === "sft" ? 3 : 10);
}

type Fit = { isFree: (name: string) => boolean; isAuto: (name: string) => boolean; rows: number };

/** A generation must be whole groups. "auto" aims at eight prompts a step. */
function fitGroups(values: Bag, { isFree, isAuto, rows }: Fit): void {
  const group = values["num_generations"] as number;
  if (isAuto("per_device_train_batch_size")) values["per_device_train_batch_size"] = group;
  const batch = () => values["per_device_train_batch_size"] as number;
  if (isAuto("gradient_accumulation_steps"))
    values["gradient_accumulation_steps"] = clamp((Math.min(8, rows) * group) / batch(), 1, 64);
  const steps = () => (values["steps_per_generation"] ?? values["gradient_accumulation_steps"]) as number;
  const requested = values["generation_batch_size"] ?? null;
  if (isFree("per_device_train_batch_size") && requested === null && (batch() * steps()) % group !== 0)
    values["per_device_train_batch_size"] = Math.ceil(batch() / group) * group;
  if (requested === null) values["generation_batch_size"] = batch() * steps();
  values["steps_per_generation"] ??= requested === null ? steps() : (requested as number) / batch();
  fitClipping(values, isFree);
  values["min_p"] ??= 0;
}

/** `gspo` has one ratio for a whole completion, and its own clip range. */
function fitClipping(values: Bag, isFree: (name: string) => boolean): void {
  if (values["loss_type"] === "gspo") {
    if (isFree("importance_sampling_level")) values["importance_sampling_level"] = "sequence";
    if (isFree("epsilon_high") && isFree("epsilon")) values["epsilon_high"] = GSPO_CLIP.epsilon_high;
    if (isFree("epsilon")) values["epsilon"] = GSPO_CLIP.epsilon;
  }
  if (values["loss_type"] === "cispo" && isFree("epsilon_high")) values["epsilon_high"] = CISPO_EPSILON_HIGH;
  values["epsilon_high"] ??= values["epsilon"];
}

/** Lengths that the user did not give shrink to the model's context; at most half of it is for the completion. */
function fitLengths(values: Bag, { contextLength }: Facts, isFree: (name: string) => boolean): void {
  if ("max_length" in values) {
    values["max_length"] ??= contextLength;
    if (isFree("max_length")) values["max_length"] = Math.min(values["max_length"] as number, contextLength);
  }
  if ("max_completion_length" in values && isFree("max_completion_length"))
    values["max_completion_length"] = clamp(contextLength / 2, 1, values["max_completion_length"] as number);
  if ("max_rollout_tokens" in values) values["max_rollout_tokens"] ??= values["max_completion_length"];
}

function conflicts(method: Method, values: Bag, facts: Facts): Problem[] {
  const problems: Problem[] = [];
  const refuse = (field: string, message: string) => problems.push({ path: [field], message });
  for (const length of ["max_length", "max_completion_length", "max_rollout_tokens"])
    if (length in values && (values[length] as number) > facts.contextLength)
      refuse(length, `is more than the model's context of ${facts.contextLength} tokens. Lower it`);
  const { metric_for_best_model: metric } = values as Values<"sft">;
  const fault = metric === null ? undefined : metricFault(method, metric);
  if (fault !== undefined) refuse("metric_for_best_model", fault);
  scheduleConflicts(values as Values<"sft">, refuse);
  if (isRolled(method)) rolledConflicts(values as Resolved<RolledMethod>, refuse);
  if (method === "grpo" || method === "distill") grpoConflicts(values as Resolved<"grpo">, refuse);
  if (method === "distill") distillConflicts(values as Resolved<"distill">, refuse);
  if (method === "rloo") {
    const [least, most] = (values as Resolved<"rloo">).reward_clip_range ?? [0, 1];
    if (least >= most) refuse("reward_clip_range", "must be [least, most], such as [-10, 10]");
  }
  if (method === "kto") ktoConflicts(values as Resolved<"kto">, refuse);
  if (method === "dpo") {
    const { loss_type, label_smoothing } = values as Values<"dpo">;
    if (label_smoothing > 0 && loss_type !== "sigmoid") refuse("label_smoothing", "works only with loss_type sigmoid");
  }
  return problems;
}

type Refuse = (field: string, message: string) => void;

function scheduleConflicts(values: Values<"sft">, refuse: Refuse): void {
  const { lr_scheduler_type: type, learning_rate: rate } = values;
  const { min_lr, min_lr_rate, lr_end } = values.lr_scheduler_kwargs ?? {};
  const field = "lr_scheduler_kwargs";
  if (min_lr !== undefined && min_lr_rate !== undefined) refuse(field, "must have min_lr or min_lr_rate, not both");
  if (type === "cosine_with_min_lr" && min_lr === undefined && min_lr_rate === undefined)
    refuse(field, "needs min_lr or min_lr_rate for cosine_with_min_lr");
  if (min_lr !== undefined && min_lr > rate) refuse(field, `min_lr must not be more than learning_rate (${rate})`);
  if (type === "polynomial" && (lr_end ?? POLYNOMIAL_END) >= rate)
    refuse(field, `lr_end must be less than learning_rate (${rate})`);
}

function rolledConflicts(values: Resolved<RolledMethod>, refuse: Refuse): void {
  const { num_generations: group, per_device_train_batch_size: batch, generation_batch_size: generation } = values;
  if (!Number.isInteger(values.steps_per_generation) || generation !== batch * values.steps_per_generation)
    refuse(
      "generation_batch_size",
      `must be per_device_train_batch_size (${batch}) × steps_per_generation, an integer`,
    );
  else if (generation % group !== 0)
    refuse(
      "num_generations",
      `must divide the ${generation} completions of a generation (per_device_train_batch_size × steps_per_generation)`,
    );
  const needsSolved = values.sampling === "replay" ? "sampling" : values.retire_after === null ? null : "retire_after";
  if (needsSolved !== null && values.solved_reward === null)
    refuse(needsSolved, "needs solved_reward, the least reward of a completion that counts as solved, such as 1");
  if (values.sampling !== "replay" && values.replay_share !== DEFAULTS.grpo.replay_share)
    refuse("replay_share", "works only with sampling replay");
  if (values.sampling !== "uniform" && !values.shuffle_dataset)
    refuse("shuffle_dataset", `must be true with sampling ${values.sampling}, which changes the order`);
  if (values.repetition_penalty !== 1)
    refuse("repetition_penalty", "must be 1: completions are drawn from the unchanged model");
}

function ktoConflicts(values: Resolved<"kto">, refuse: Refuse): void {
  const rows = values.per_device_train_batch_size * values.gradient_accumulation_steps;
  if (values.loss_type === "kto" && rows < 2)
    refuse(
      "per_device_train_batch_size",
      "must be at least 2 for the loss_type kto: the KL estimate pairs each prompt with the answer of another row",
    );
  if (values.desirable_weight === 0 && values.undesirable_weight === 0)
    refuse("desirable_weight", "must not be 0 together with undesirable_weight: nothing would be learned");
}

function grpoConflicts(values: Resolved<"grpo">, refuse: Refuse): void {
  if (values.loss_type === "gspo" && values.importance_sampling_level !== "sequence")
    refuse("importance_sampling_level", "must be sequence for the loss_type gspo. Leave it out");
  if (values.loss_type === "cispo" && values.epsilon_high === 0)
    refuse("epsilon_high", "must be more than 0 for the loss_type cispo: it is the largest weight of a token");
  const { importance_sampling_clip_min: least, importance_sampling_clip_max: most } = values;
  if (least !== null && most !== null && least >= most)
    refuse("importance_sampling_clip_min", `must be less than importance_sampling_clip_max (${most})`);
  const truncates = values.importance_sampling_mode.endsWith("truncate");
  if (values.importance_sampling_correction && truncates && least === null && most === null)
    refuse(
      "importance_sampling_mode",
      "needs importance_sampling_clip_max or importance_sampling_clip_min to truncate at",
    );
}

function distillConflicts(values: Resolved<"distill">, refuse: Refuse): void {
  const { distillation_loss: loss } = values;
  if (values.importance_sampling_level !== "token")
    refuse("importance_sampling_level", "must be token for distill: the teacher judges each token by itself");
  if (loss !== "jsd" && values.distillation_mix !== DEFAULTS.distill.distillation_mix)
    refuse("distillation_mix", "works only with distillation_loss jsd");
  if (divergenceOf(values) === null && values.distillation_top_k !== null)
    refuse("distillation_top_k", "works only with distillation_loss reverse_kl, forward_kl or jsd");
  if (loss !== "sampled" && values.distillation_clip !== DEFAULTS.distill.distillation_clip)
    refuse("distillation_clip", "works only with distillation_loss sampled");
  if (loss !== "sampled" && values.exact_sampling === true)
    refuse("exact_sampling", `must be null or false with distillation_loss ${loss}`);
  if (loss !== "hard") return;
  const neutral = { beta: 0, top_entropy_quantile: 1, dynamic_sampling: false, max_turns: DEFAULTS.distill.max_turns };
  for (const [name, value] of Object.entries(neutral))
    if (values[name as keyof typeof neutral] !== value)
      refuse(
        name,
        `must be ${value} with distillation_loss hard: the student learns the teacher's answers as they are`,
      );
}

const clamp = (value: number, least: number, most: number) =>
  Math.max(least, Math.min(Math.floor(value), Math.floor(most)));
