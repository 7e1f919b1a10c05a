/**
 * The training task of the demo: sums of a two-digit and a one-digit number, such as 47 + 8. The built-in model answers
 * less than half of them correctly.
 */
import { openRandom, permutation } from "../random.ts";

export type Row = { prompt: string; answer: number };

const HELD_OUT = 100;
const ORDER = 11;

function sums(): Row[] {
  const rows: Row[] = [];
  for (let a = 10; a < 100; a++)
    for (let b = 1; b < 10; b++) rows.push({ prompt: `What is ${a} + ${b}?`, answer: a + b });
  return rows;
}

/** No row is in both sets. */
export function splitRows(): { train: Row[]; heldOut: Row[] } {
  const all = sums();
  const mixed = [...permutation(all.length, openRandom(ORDER))].flatMap((i) => all[i] ?? []);
  return { train: mixed.slice(HELD_OUT), heldOut: mixed.slice(0, HELD_OUT) };
}

export const isRight = (text: string, { answer }: Row) => text.trim() === String(answer);

export const REWARD = `def reward(completions, answer, **kwargs):
    """1 for the number and nothing else, 0 for anything else."""
    return [float(text.strip() == str(right)) for text, right in zip(completions, answer)]
`;

/** Rows to test the reward on before the training. */
export const TRIALS = [
  { prompt: "What is 47 + 8?", completion: "55", answer: 55 },
  { prompt: "What is 47 + 8?", completion: "45", answer: 55 },
  { prompt: "What is 84 + 9?", completion: " 93\n", answer: 93 },
  { prompt: "What is 84 + 9?", completion: "The answer is 93.", answer: 93 },
];
export const TRIAL_REWARDS = [1, 0, 1, 0];

/**
 * 16 questions per step with 8 answers each. Dynamic sampling replaces groups whose answers all have the same reward.
 */
export const RECIPE = {
  num_generations: 8,
  per_device_train_batch_size: 128,
  max_steps: 40,
  learning_rate: 2e-3,
  dynamic_sampling: true,
  max_completion_length: 8,
} as const;
export const LORA = { r: 16, alpha: 32 } as const;
export const SEED = 7;
