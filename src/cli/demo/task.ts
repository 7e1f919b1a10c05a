/**
 * What the demo teaches: taking a two-digit number from a round one, such as 70 - 52. The built-in model gets less than
 * half of these right, and forgets the ten that was lent in most of the others.
 */
import { openRandom, permutation } from "../../lib/training/random.ts";

export type Row = { prompt: string; answer: number };

const HELD_OUT = 100;
const ORDER = 11;

function differences(): Row[] {
  const rows: Row[] = [];
  for (let a = 30; a < 100; a += 10)
    for (let b = 11; b < a - 10; b++) if (b % 10 > 0) rows.push({ prompt: `What is ${a} - ${b}?`, answer: a - b });
  return rows;
}

/** Nothing of the one is in the other. */
export function splitRows(): { train: Row[]; heldOut: Row[] } {
  const all = differences();
  const mixed = [...permutation(all.length, openRandom(ORDER))].flatMap((i) => all[i] ?? []);
  return { train: mixed.slice(HELD_OUT), heldOut: mixed.slice(0, HELD_OUT) };
}

export const isRight = (said: string, { answer }: Row) => said.trim() === String(answer);

export const REWARD = `def reward(completions, answer, **kwargs):
    """1 for the number and nothing else, 0 for anything else."""
    return [float(text.strip() == str(right)) for text, right in zip(completions, answer)]
`;

/** What the reward is tried on before anything is trained. */
export const TRIALS = [
  { prompt: "What is 70 - 52?", completion: "18", answer: 18 },
  { prompt: "What is 70 - 52?", completion: "28", answer: 18 },
  { prompt: "What is 90 - 74?", completion: " 16\n", answer: 16 },
  { prompt: "What is 90 - 74?", completion: "The answer is 16.", answer: 16 },
];
export const TRIAL_REWARDS = [1, 0, 1, 0];

/** 16 questions a step, 8 answers each. */
export const RECIPE = {
  num_generations: 8,
  per_device_train_batch_size: 128,
  max_steps: 30,
  learning_rate: 1e-3,
  max_completion_length: 8,
} as const;
export const LORA = { r: 16, alpha: 32 } as const;
export const SEED = 7;
