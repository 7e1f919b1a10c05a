/**
 * KTO: single answers with a label. The KL estimate of a step scores the answer of each row under the prompt of the next
 * one. It is computed before the gradients, under the same weights.
 */

import { type KtoTally, klEstimate, ktoMetrics, weighAnswer } from "../../../lib/training/loss/kto.ts";
import { ktoOptions } from "../../../lib/training/plan.ts";
import type { Resolved } from "../../../lib/training/resolve.ts";
import { type Answer, openAnswers } from "../data/examples.ts";
import type { Piece, Scores } from "../trainee/types.ts";
import { rowMethod, tokensOf, type Work } from "./over_rows.ts";
import type { World } from "./types.ts";

export const kto = rowMethod("kto", {
  read: (source, encoder, { max_length }) => openAnswers(source, encoder, max_length),
  noun: () => "rows",
  unitsOf: (answer) => [[answer]],
  whyLeftOut: "max_length cuts off all of the completion",
  work,
});

function work({ trainee, reference }: World, values: Resolved<"kto">): Work<Answer> {
  if (!reference) throw new Error("kto needs the model as it was before");
  const options = ktoOptions(values);

  async function kl(answers: readonly Answer[]): Promise<number> {
    if (options.lossType !== "kto") return 0;
    const pieces = answers.map((answer, i) => mismatched(answer, answers.at(i - 1)!, values.max_length));
    const [now, before] = [await trainee.score(pieces), await reference!(pieces)];
    return klEstimate(now.map(({ logps }, i) => ({ logp: logps, logpRef: before[i]!.logps })));
  }

  const weigher = async (answers: readonly Answer[]) => {
    const [estimate, before] = [await kl(answers), await reference!(answers)];
    const of = { kl: estimate, scale: 1 / answers.length };
    const weigh = (i: number, now: Scores) => {
      const { isGood } = answers[i]!;
      return weighAnswer({ logp: now.logps, logpRef: before[i]!.logps, isGood }, of, options);
    };
    return { weigh, kl: estimate };
  };

  async function learn(answers: readonly Answer[], dropoutSeed: number) {
    const { weigh, kl: estimate } = await weigher(answers);
    const tallies: KtoTally[] = new Array(answers.length);
    await trainee.learn(
      answers.map((answer) => [answer]),
      (unit, [scores]) => {
        const weighed = weigh(unit, scores!);
        tallies[unit] = weighed.tally;
        return [weighed.weights];
      },
      { dropoutSeed },
    );
    return { metrics: ktoMetrics(tallies, estimate), tokens: tokensOf(answers) };
  }

  async function evaluate(answers: readonly Answer[]): Promise<Record<string, number>> {
    const { weigh, kl: estimate } = await weigher(answers);
    const scored = await trainee.score(answers);
    return ktoMetrics(
      scored.map((scores, i) => weigh(i, scores).tally),
      estimate,
    );
  }

  return { learn, evaluate };
}

/** The prompt of one row with the answer of another. The prompt of a usable row leaves room for at least one token. */
export function mismatched(prompt: Piece, answer: Piece, maxLength: number): Piece {
  const said = answer.tokens.subarray(answer.from);
  const tokens = new Int32Array(Math.min(maxLength, prompt.from + said.length));
  tokens.set(prompt.tokens.subarray(0, prompt.from));
  tokens.set(said.subarray(0, tokens.length - prompt.from), prompt.from);
  return { tokens, from: prompt.from };
}
