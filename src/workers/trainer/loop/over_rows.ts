/** The part that methods over the rows of a dataset share: SFT, DPO, ORPO and KTO draw rows in epochs, then learn. */

import { seedOf } from "../../../lib/random.ts";
import { stepsOf } from "../../../lib/training/plan.ts";
import type { Resolved } from "../../../lib/training/resolve.ts";
import type { Examples } from "../data/examples.ts";
import { epochsPassed, openOrder } from "../data/order.ts";
import type { Method, Resumed } from "./types.ts";

type RowMethod = "sft" | "dpo" | "orpo" | "kto";

export type RowSetting<M extends RowMethod, T> = {
  values: Resolved<M>;
  seed: number;
  examples: Examples<T>;
  heldOut: Examples<T> | null;
};

/** `tokens`: number of tokens that the model saw. */
export type Learned = { metrics: Record<string, number>; tokens: number };

type Work<T> = {
  /** Sums the gradients of a step. The seed is that of its dropout. */
  learn: (drawn: readonly T[], seed: number) => Promise<Learned>;
  /** Metrics of held-out examples, without a prefix. */
  evaluate: (held: readonly T[]) => Promise<Record<string, number>>;
  /** Reason why rows may be left out. */
  whyLeftOut: string;
};

const MOST_HELD_OUT = 256;

export function openOverRows<M extends RowMethod, T>(
  method: M,
  { values, seed, examples, heldOut }: RowSetting<M, T>,
  resumed: Resumed | null,
  { learn, evaluate, whyLeftOut }: Work<T>,
): Method {
  const batch = values.per_device_train_batch_size * values.gradient_accumulation_steps;
  const order = openOrder(
    { rows: examples.count, shuffle: values.shuffle_dataset, atEnd: "short" },
    resumed?.order ?? { seed, epoch: 0, position: 0 },
  );
  return {
    totalSteps: stepsOf(method, values, examples.count),
    async gather(step) {
      const drawn = order.draw(batch).map((index) => examples.get(index));
      const { metrics: found, tokens } = await learn(drawn, seedOf(seed, step));
      const metrics = soundOnly(found);
      return { metrics, loss: metrics["loss"] ?? 0, tokens, maxAdvantage: null, samples: [] };
    },
    evaluate: heldOut && (async () => prefixed(soundOnly(await evaluate(spread(heldOut, MOST_HELD_OUT))))),
    epoch: () => epochsPassed(order.state(), examples.count),
    order: order.state,
    left: () => null,
    warning: leftOutWords(examples, whyLeftOut),
  };
}

/** Without a finite loss nothing is known of the model: comparisons with NaN would count as wrong answers. */
const soundOnly = (metrics: Record<string, number>) =>
  Number.isFinite(metrics["loss"]) ? metrics : Object.fromEntries(Object.keys(metrics).map((key) => [key, Number.NaN]));

const prefixed = (metrics: Readonly<Record<string, number>>) =>
  Object.fromEntries(Object.entries(metrics).map(([key, value]) => [`eval_${key}`, value]));

/** Picks at most `most` examples, evenly spread, and always the same ones. */
function spread<T>({ count, get }: Examples<T>, most: number): T[] {
  const taken = Math.min(count, most);
  return Array.from({ length: taken }, (_, i) => get(Math.floor((i * count) / taken)));
}

export function leftOutWords({ leftOut, count }: Examples<unknown>, why: string): string | null {
  if (leftOut === 0) return null;
  return `${leftOut} ${leftOut === 1 ? "row is" : "rows are"} not used: ${why}. ${count} ${count === 1 ? "is" : "are"} trained on`;
}

export const tokensOf = (pieces: readonly { tokens: Int32Array }[]) =>
  pieces.reduce((sum, { tokens }) => sum + tokens.length, 0);
