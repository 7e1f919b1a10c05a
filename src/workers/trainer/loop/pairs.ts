/**
 * Methods that learn from pairs of answers: DPO, which compares with the scores of the model before training, and ORPO,
 * which does not.
 */

import { type DpoTally, dpoMetrics, type Preference, weighPreference } from "../../../lib/training/loss/dpo.ts";
import { type OrpoTally, orpoMetrics, weighOdds } from "../../../lib/training/loss/orpo.ts";
import { dpoOptions } from "../../../lib/training/plan.ts";
import type { Resolved } from "../../../lib/training/resolve.ts";
import type { Encoder } from "../data/encode.ts";
import { openPairs, type Pair } from "../data/examples.ts";
import type { RowSource } from "../data/rows.ts";
import type { Piece, Scores } from "../trainee/types.ts";
import { rowMethod, tokensOf, type Work } from "./over_rows.ts";
import type { World } from "./types.ts";

const ofPairs = {
  read: (source: RowSource, encoder: Encoder, { max_length }: { max_length: number }) =>
    openPairs(source, encoder, max_length),
  noun: () => "pairs",
  unitsOf: ({ chosen, rejected }: Pair) => [[chosen, rejected]],
  whyLeftOut: "max_length cuts off all of chosen or rejected",
};

export const dpo = rowMethod("dpo", { ...ofPairs, work: dpoWork });
export const orpo = rowMethod("orpo", { ...ofPairs, work: orpoWork });

function dpoWork({ trainee, reference }: World, values: Resolved<"dpo">): Work<Pair> {
  if (!reference) throw new Error("dpo needs the model as it was before");
  const options = dpoOptions(values);
  const flat = (pairs: readonly Pair[]) => pairs.flatMap(({ chosen, rejected }) => [chosen, rejected]);

  async function learn(pairs: readonly Pair[], dropoutSeed: number) {
    const before = await reference!(flat(pairs));
    const tallies: DpoTally[] = new Array(pairs.length);
    await trainee.learn(
      pairs.map(({ chosen, rejected }) => [chosen, rejected]),
      (unit, scores) => {
        const weighed = weighPreference(preference(scores, before.slice(2 * unit)), 1 / pairs.length, options);
        tallies[unit] = weighed.tally;
        return [weighed.chosen, weighed.rejected];
      },
      { dropoutSeed },
    );
    return { metrics: dpoMetrics(tallies), tokens: tokensOf(flat(pairs)) };
  }

  async function evaluate(pairs: readonly Pair[]): Promise<Record<string, number>> {
    const [before, now] = [await reference!(flat(pairs)), await trainee.score(flat(pairs))];
    const tallies = pairs.map(
      (_, i) => weighPreference(preference(now.slice(2 * i), before.slice(2 * i)), 1 / pairs.length, options).tally,
    );
    return dpoMetrics(tallies);
  }

  return { learn, evaluate };
}

/** Every token from a piece's `from` on belongs to the answer. */
function preference([chosen, rejected]: readonly Scores[], [chosenRef, rejectedRef]: readonly Scores[]): Preference {
  const judged = (now: Scores, before: Scores) => ({
    logp: now.logps,
    logpRef: before.logps,
    active: new Uint8Array(now.logps.length).fill(1),
  });
  return { chosen: judged(chosen!, chosenRef!), rejected: judged(rejected!, rejectedRef!) };
}

function orpoWork({ trainee }: World, { beta }: Resolved<"orpo">): Work<Pair> {
  const piecesOf = ({ chosen, rejected }: Pair): [Piece, Piece] => [{ tokens: chosen.tokens, from: 1 }, rejected];

  const weigher = (pairs: readonly Pair[]) => {
    const counting = pairs.reduce((sum, { chosen }) => sum + chosen.tokens.length - 1, 0);
    const options = { beta, pairScale: 1 / pairs.length, tokenScale: 1 / Math.max(counting, 1) };
    return (index: number, [chosen, rejected]: readonly Scores[]) => {
      const answerFrom = pairs[index]!.chosen.from - 1; // scored tokens begin with the second of the row
      return weighOdds({ chosen: chosen!.logps, answerFrom, rejected: rejected!.logps }, options);
    };
  };

  async function learn(pairs: readonly Pair[], dropoutSeed: number) {
    const weigh = weigher(pairs);
    const tallies: OrpoTally[] = new Array(pairs.length);
    await trainee.learn(
      pairs.map(piecesOf),
      (unit, scores) => {
        const weighed = weigh(unit, scores);
        tallies[unit] = weighed.tally;
        return [weighed.chosen, weighed.rejected];
      },
      { dropoutSeed },
    );
    return { metrics: orpoMetrics(tallies, beta), tokens: tokensOf(pairs.flatMap(piecesOf)) };
  }

  async function evaluate(pairs: readonly Pair[]): Promise<Record<string, number>> {
    const weigh = weigher(pairs);
    const scored = await trainee.score(pairs.flatMap(piecesOf));
    const tallies = pairs.map((_, i) => weigh(i, scored.slice(2 * i, 2 * i + 2)).tally);
    return orpoMetrics(tallies, beta);
  }

  return { learn, evaluate };
}
