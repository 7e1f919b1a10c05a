/** Small tasks that a random model learns in a few steps, one for each method. */
import type { HyperparameterInput } from "../../src/lib/training/fields.ts";
import type { Score } from "../../src/workers/trainer/loop/types.ts";
import { scoring } from "../trainer_kit.ts";

export const LORA = { r: 4, alpha: 8 };
const letters = (count: number, from = 0) =>
  Array.from({ length: count }, (_, i) => String.fromCharCode(97 + ((i + from) % 26)));
export const TASKS = {
  sft: letters(20).map((prompt) => ({ prompt, completion: `yes ${prompt}` })),
  dpo: letters(20).map((prompt) => ({ prompt, chosen: "yes", rejected: "no!" })),
  grpo: letters(20).map((prompt) => ({ prompt })),
  rloo: letters(20).map((prompt) => ({ prompt })),
  distill: letters(20).map((prompt) => ({ prompt })),
  orpo: letters(20).map((prompt) => ({ prompt, chosen: "yes", rejected: "no!" })),
  kto: letters(20).map((prompt, i) => ({ prompt, completion: i % 2 ? "yes" : "no!", label: i % 2 === 1 })),
};
export const HELD_OUT = {
  sft: letters(6, 20).map((prompt) => ({ prompt, completion: `yes ${prompt}` })),
  dpo: letters(6, 20).map((prompt) => ({ prompt, chosen: "yes", rejected: "no!" })),
  grpo: letters(6, 20).map((prompt) => ({ prompt })),
  rloo: letters(6, 20).map((prompt) => ({ prompt })),
  distill: letters(6, 20).map((prompt) => ({ prompt })),
  orpo: letters(6, 20).map((prompt) => ({ prompt, chosen: "yes", rejected: "no!" })),
  kto: letters(6, 20).map((prompt, i) => ({ prompt, completion: i % 2 ? "yes" : "no!", label: i % 2 === 1 })),
};
/** The more capitals, the better. */
export const loud: Score = scoring((text) => text.replaceAll(/[^A-Z]/g, "").length / Math.max(1, text.length));
export const GRPO: HyperparameterInput<"grpo"> = {
  learning_rate: 0.01,
  num_generations: 4,
  per_device_train_batch_size: 16,
  max_completion_length: 6,
};
export const series = (steps: readonly { values: Record<string, number> }[], key: string) =>
  steps.flatMap(({ values }) => (values[key] === undefined ? [] : [values[key]]));
export const mean = (values: readonly number[]) => values.reduce((a, b) => a + b, 0) / values.length;
