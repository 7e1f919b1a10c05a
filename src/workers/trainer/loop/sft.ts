/** Supervised fine-tuning: all counting tokens of a step's rows have the same weight. */

import { openSequences, type Sequence } from "../data/examples.ts";
import { type SftTally, sftMetrics, weighSequence } from "../data/sft.ts";
import { rowMethod, tokensOf, type Work } from "./over_rows.ts";
import type { World } from "./types.ts";

export const sft = rowMethod("sft", {
  read: (source, encoder, values) =>
    openSequences(source, encoder, {
      completionOnly: values.completion_only_loss,
      assistantOnly: values.assistant_only_loss,
      maxLength: values.max_length,
      packing: values.packing,
    }),
  noun: ({ packing }) => (packing ? "packed rows" : "rows"),
  unitsOf: (sequences) => sequences.map((sequence) => [sequence]),
  whyLeftOut: "max_length cuts off all of their tokens to learn",
  work,
});

function work({ trainee }: World): Work<Sequence[]> {
  async function learn(drawn: readonly Sequence[][], dropoutSeed: number) {
    const sequences = drawn.flat();
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
    return { metrics: sftMetrics(tallies), tokens: tokensOf(sequences) };
  }

  async function evaluate(held: readonly Sequence[][]): Promise<Record<string, number>> {
    const sequences = held.flat();
    const scored = await trainee.score(sequences);
    let [sum, tokens] = [0, 0];
    sequences.forEach(({ mask }, i) => {
      mask.forEach((counts, t) => {
        if (!counts) return;
        sum -= scored[i]!.logps[t]!;
        tokens++;
      });
    });
    return { loss: sum / Math.max(tokens, 1) };
  }

  return { learn, evaluate };
}
