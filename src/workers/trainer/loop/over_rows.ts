/** The part that methods over the rows of a dataset share: SFT, DPO, ORPO and KTO draw rows in epochs, then learn. */

import { seedOf } from "../../../lib/random.ts";
import { stepsOf } from "../../../lib/training/plan.ts";
import { type Resolved, readResolved } from "../../../lib/training/resolve.ts";
import type { Encoder } from "../data/encode.ts";
import type { Examples } from "../data/examples.ts";
import { epochsPassed, openOrder } from "../data/order.ts";
import type { RowSource } from "../data/rows.ts";
import type { Piece } from "../trainee/types.ts";
import type { Method, MethodKind, Resumed, RowMethod, Split, World } from "./types.ts";

/** `tokens`: number of tokens that the model saw. */
type Learned = { metrics: Record<string, number>; tokens: number };

export type Work<T> = {
  /** Sums the gradients of a step. The seed is that of its dropout. */
  learn: (drawn: readonly T[], seed: number) => Promise<Learned>;
  /** Metrics of held-out examples, without a prefix. */
  evaluate: (held: readonly T[]) => Promise<Record<string, number>>;
};

type Spec<M extends RowMethod, T> = {
  read: (source: RowSource, encoder: Encoder, values: Resolved<M>) => Promise<Examples<T>>;
  /** The noun of the examples in the log, in the plural. */
  noun: (values: Resolved<M>) => string;
  /** The units of pieces that one example is learned as. */
  unitsOf: (example: T) => Piece[][];
  /** Reason why rows may be left out. */
  whyLeftOut: string;
  work: (world: World, values: Resolved<M>) => Work<T>;
};

/** A method that reads examples of type T from the rows. */
export function rowMethod<M extends RowMethod, T>(method: M, spec: Spec<M, T>): MethodKind {
  return {
    async open(plan, { encoder, read }) {
      const values = readResolved(method, plan.hyperparameters);
      const split = await read((source) => spec.read(source, encoder, values));
      const { examples, heldOut } = split;
      return {
        kind: "rows",
        values,
        maxLength: Math.max(examples.longest, heldOut?.longest ?? 0),
        rows: `${examples.count} ${spec.noun(values)}`,
        count: examples.count,
        units: (index) => spec.unitsOf(examples.get(index)),
        open(world, resumed) {
          const { learn, evaluate } = spec.work(world, values);
          const steps = { values, totalSteps: stepsOf(method, values, examples.count) };
          const warning = leftOutWords(examples, spec.whyLeftOut);
          return { ...steps, ...overRows(split, { values, seed: plan.seed, resumed, learn, evaluate }), warning };
        },
      };
    },
  };
}

const MOST_HELD_OUT = 256;

type Run<T> = Work<T> & { values: Resolved<RowMethod>; seed: number; resumed: Resumed | null };

function overRows<T>({ examples, heldOut }: Split<T>, { values, seed, resumed, learn, evaluate }: Run<T>) {
  const batch = values.per_device_train_batch_size * values.gradient_accumulation_steps;
  const order = openOrder(
    { rows: examples.count, shuffle: values.shuffle_dataset, atEnd: "short" },
    resumed?.order ?? { seed, epoch: 0, position: 0 },
  );
  return {
    async gather(step) {
      const drawn = order.draw(batch).map((index) => examples.get(index));
      const learned = await learn(drawn, seedOf(seed, step));
      const metrics = soundOnly(learned.metrics);
      return { metrics, loss: metrics["loss"] ?? 0, tokens: learned.tokens, maxAdvantage: null, samples: [] };
    },
    evaluate: heldOut && (async () => prefixed(soundOnly(await evaluate(spread(heldOut, MOST_HELD_OUT))))),
    epoch: () => epochsPassed(order.state(), examples.count),
    order: order.state,
    curriculum: () => null,
    left: () => null,
  } satisfies Partial<Method>;
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
