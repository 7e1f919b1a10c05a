/** The form of a new run: its state, and the request that it makes. */
import { isObject } from "../../../../lib/json/object.ts";
import { REWARD } from "../../../../lib/training/sums.ts";
import { hasReward, METHODS, type Method, REWARDED } from "../methods.ts";
import type { TrainingJob } from "../types.ts";

/** `reward`: "code", "keep" (as in the cloned run), "none" (a teacher alone), or the id of a reward function. Numbers are text: empty is automatic. */
export type Form = {
  name: string;
  model: string;
  teacher: string;
  method: Method;
  dataset: string;
  evalDataset: string;
  reward: string;
  code: string;
  rank: string;
  seed: string;
  maxCost: string;
  numbers: Readonly<Record<string, string>>;
  more: string;
};

type NumberField = { name: string; label: string; hint: string; methods: readonly Method[] };

export const NUMBERS: readonly NumberField[] = [
  { name: "max_steps", label: "Steps", hint: "updates of the model", methods: METHODS },
  { name: "learning_rate", label: "Learning rate", hint: "size of each update", methods: METHODS },
  { name: "per_device_train_batch_size", label: "Batch", hint: "answers or rows in a step", methods: METHODS },
  { name: "num_generations", label: "Group", hint: "answers to each prompt", methods: REWARDED },
  { name: "max_completion_length", label: "Longest answer", hint: "in tokens", methods: REWARDED },
  { name: "max_length", label: "Longest row", hint: "in tokens", methods: ["sft", "dpo", "kto", "orpo"] },
  {
    name: "beta",
    label: "Beta",
    hint: "strength of the comparison",
    methods: ["grpo", "rloo", "distill", "dpo", "kto", "orpo"],
  },
  { name: "distillation_weight", label: "Teacher", hint: "its weight beside rewards", methods: ["distill"] },
];

export const EMPTY: Form = {
  name: "",
  model: "",
  teacher: "",
  method: "grpo",
  dataset: "",
  evalDataset: "",
  reward: "code",
  code: REWARD,
  rank: "16",
  seed: "",
  maxCost: "",
  numbers: {},
  more: "",
};

/** The form with the settings of a run. */
export function formOf(job: TrainingJob): Form {
  const method = METHODS.find((each) => each === job.method) ?? "grpo";
  const fields = NUMBERS.filter(({ methods }) => methods.includes(method));
  const text = (value: unknown) => (typeof value === "number" ? String(value) : "");
  return {
    ...EMPTY,
    name: `${job.output_name}-again`.slice(0, 100),
    model: job.base_model,
    teacher: job.teacher_model ?? "",
    method,
    seed: String(job.seed),
    dataset: job.dataset?.id ?? "",
    evalDataset: job.eval_dataset?.id ?? "",
    ...(job.reward_source === null ? { reward: "keep" } : { reward: "code", code: job.reward_source }),
    rank: job.lora ? String(job.lora.r) : "0",
    maxCost: text(job.max_cost_usd),
    numbers: Object.fromEntries(fields.map(({ name }) => [name, text(job.hyperparameters[name])])),
  };
}

export type Made = { body: Record<string, unknown> } | { faults: Readonly<Record<string, string>> };

/** The request, or what is wrong in the form itself, by JSON pointer. */
export function bodyOf(form: Form, source: string | undefined): Made {
  const faults: Record<string, string> = {};
  const numeric = (text: string, pointer: string): number | undefined => {
    if (text.trim() === "") return undefined;
    const value = Number(text);
    if (!Number.isFinite(value)) faults[pointer] = "must be a number";
    return value;
  };
  const hyperparameters: Record<string, unknown> = moreOf(form.more, faults);
  for (const { name, methods } of NUMBERS) {
    if (!methods.includes(form.method)) continue;
    const value = numeric(form.numbers[name] ?? "", `/hyperparameters/${name}`);
    if (value !== undefined) hyperparameters[name] = value;
    else if (source !== undefined && !(name in hyperparameters)) hyperparameters[name] = "auto"; // not the cloned run's
  }
  const rank = numeric(form.rank, "/lora/r");
  const [seed, maxCost] = [numeric(form.seed, "/seed"), numeric(form.maxCost, "/max_cost_usd")];
  if (Object.keys(faults).length > 0) return { faults };
  const fields = {
    output_name: form.name,
    base_model: form.model,
    teacher_model: form.method === "distill" ? form.teacher : "",
    dataset: form.dataset,
    eval_dataset: form.evalDataset,
  };
  const texts = Object.entries(fields).filter(([, text]) => text.trim() !== "");
  return {
    body: {
      ...Object.fromEntries(texts),
      ...(source === undefined ? {} : { source_job: source }),
      method: form.method,
      hyperparameters,
      ...(hasReward(form.method) ? rewardOf(form) : {}),
      ...(rank === undefined ? {} : { lora: rank === 0 ? null : { r: rank, alpha: 2 * rank } }),
      ...(seed === undefined ? {} : { seed }),
      ...(maxCost === undefined ? {} : { max_cost_usd: maxCost }),
    },
  };
}

function rewardOf({ reward, code }: Form): Record<string, unknown> {
  if (reward === "keep") return {};
  if (reward === "none") return { reward_source: null, reward_functions: [] };
  return reward === "code" ? { reward_source: code } : { reward_source: null, reward_functions: [{ id: reward }] };
}

function moreOf(text: string, faults: Record<string, string>): Record<string, unknown> {
  if (text.trim() === "") return {};
  try {
    const value: unknown = JSON.parse(text);
    if (isObject(value)) return { ...value };
    faults["/hyperparameters"] = 'must be an object in braces, such as {"temperature": 0.9}';
  } catch (error) {
    faults["/hyperparameters"] = `is not JSON: ${error instanceof Error ? error.message : ""}`;
  }
  return {};
}
