/** Supervised fine-tuning: all counting tokens of a step's rows have the same weight. */

import type { Sequence } from "../data/examples.ts";
import { type SftTally, sftMetrics, weighSequence } from "../data/sft.ts";
import { openOverRows, type RowSetting, tokensOf } from "./over_rows.ts";
import type { Method, Resumed, World } from "./types.ts";

export function openSft(world: World, setting: RowSetting<"sft", Sequence[]>, resumed: Resumed | null): Method {
  const { trainee } = world;

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

  const whyLeftOut = "max_length cuts off all of their tokens to learn";
  return openOverRows("sft", setting, resumed, { learn, evaluate, whyLeftOut });
}
