/** Supervised fine-tuning: all counting tokens of a step's rows have the same weight. */

import { seedOf } from "../../../lib/random.ts";
import { stepsOf } from "../../../lib/training/plan.ts";
import type { Resolved } from "../../../lib/training/resolve.ts";
import type { Examples, Sequence } from "../data/examples.ts";
import { epochsPassed, openOrder } from "../data/order.ts";
import { type SftTally, sftMetrics, weighSequence } from "../data/sft.ts";
import { leftOutWords, spread } from "./held_out.ts";
import type { Gathered, Method, Resumed, World } from "./types.ts";

export type SftOptions = {
  values: Resolved<"sft">;
  seed: number;
  examples: Examples<Sequence[]>;
  heldOut: Examples<Sequence[]> | null;
};

const MOST_HELD_OUT = 256;

export function openSft(world: World, options: SftOptions, resumed: Resumed | null): Method {
  const { trainee } = world;
  const { values, seed, examples, heldOut } = options;
  const batch = values.per_device_train_batch_size * values.gradient_accumulation_steps;
  const order = openOrder(
    { rows: examples.count, shuffle: values.shuffle_dataset, atEnd: "short" },
    resumed?.order ?? { seed, epoch: 0, position: 0 },
  );

  async function gather(step: number): Promise<Gathered> {
    const sequences = order.draw(batch).flatMap((index) => examples.get(index));
    const tallies = await learn(sequences, seedOf(seed, step));
    const metrics = sftMetrics(tallies);
    return {
      metrics,
      loss: metrics["loss"] ?? 0,
      tokens: sequences.reduce((sum, { tokens }) => sum + tokens.length, 0),
      maxAdvantage: null,
      samples: [],
    };
  }

  async function learn(sequences: readonly Sequence[], dropoutSeed: number): Promise<SftTally[]> {
    const counting = sequences.reduce((sum, { mask }) => sum + mask.reduce((a, b) => a + b, 0), 0);
    const tallies: SftTally[] = new Array(sequences.length);
    await trainee.learn(
      sequences.map((sequence) => [sequence]),
      (unit, [scores]) => {
        const { mask } = sequences[unit]!;
        const weighed = weighSequence({ logp: scores!.logps, mask, correct: null, entropy: null }, counting);
        tallies[unit] = weighed.tally; // stored by index, because sums must not depend on the order of micro-batches
        return [weighed.weights];
      },
      { dropoutSeed },
    );
    return tallies;
  }

  async function evaluate(): Promise<Record<string, number>> {
    const sequences = spread(heldOut!, MOST_HELD_OUT).flat();
    const scored = await trainee.score(sequences);
    let [sum, tokens] = [0, 0];
    sequences.forEach(({ mask }, i) => {
      mask.forEach((counts, t) => {
        if (!counts) return;
        sum -= scored[i]!.logps[t]!;
        tokens++;
      });
    });
    return { eval_loss: sum / Math.max(tokens, 1) };
  }

  return {
    totalSteps: stepsOf("sft", values, examples.count),
    gather,
    evaluate: heldOut && evaluate,
    epoch: () => epochsPassed(order.state(), examples.count),
    order: order.state,
    left: () => null,
    warning: leftOutWords(examples, "max_length cuts off all of their tokens to learn"),
  };
}
