/** Direct preference optimization: pairs, and their scores under the model before training. */

import { seedOf } from "../../../lib/random.ts";
import { type DpoTally, dpoMetrics, type Preference, weighPreference } from "../../../lib/training/loss/dpo.ts";
import { dpoOptions, stepsOf } from "../../../lib/training/plan.ts";
import type { Resolved } from "../../../lib/training/resolve.ts";
import type { Examples, Pair } from "../data/examples.ts";
import { epochsPassed, openOrder } from "../data/order.ts";
import type { Scores } from "../trainee/types.ts";
import { leftOutWords, spread } from "./held_out.ts";
import type { Gathered, Method, Resumed, World } from "./types.ts";

export type DpoSetting = {
  values: Resolved<"dpo">;
  seed: number;
  examples: Examples<Pair>;
  heldOut: Examples<Pair> | null;
};

const MOST_HELD_OUT = 256;

export function openDpo(world: World, setting: DpoSetting, resumed: Resumed | null): Method {
  const { trainee, reference } = world;
  const { values, seed, examples, heldOut } = setting;
  if (!reference) throw new Error("dpo needs the model as it was before");
  const options = dpoOptions(values);
  const batch = values.per_device_train_batch_size * values.gradient_accumulation_steps;
  const order = openOrder(
    { rows: examples.count, shuffle: values.shuffle_dataset, atEnd: "short" },
    resumed?.order ?? { seed, epoch: 0, position: 0 },
  );
  const flat = (pairs: readonly Pair[]) => pairs.flatMap(({ chosen, rejected }) => [chosen, rejected]);

  async function gather(step: number): Promise<Gathered> {
    const pairs = order.draw(batch).map((index) => examples.get(index));
    const before = await reference!(flat(pairs));
    const tallies: DpoTally[] = new Array(pairs.length);
    await trainee.learn(
      pairs.map(({ chosen, rejected }) => [chosen, rejected]),
      (unit, scores) => {
        const weighed = weighPreference(preference(scores, before.slice(2 * unit)), 1 / pairs.length, options);
        tallies[unit] = weighed.tally;
        return [weighed.chosen, weighed.rejected];
      },
      { dropoutSeed: seedOf(seed, step) },
    );
    const metrics = dpoMetrics(tallies);
    const tokens = flat(pairs).reduce((sum, each) => sum + each.tokens.length, 0);
    return { metrics, loss: metrics["loss"] ?? 0, tokens, maxAdvantage: null, samples: [] };
  }

  async function evaluate(): Promise<Record<string, number>> {
    const pairs = spread(heldOut!, MOST_HELD_OUT);
    const [before, now] = [await reference!(flat(pairs)), await trainee.score(flat(pairs))];
    const tallies = pairs.map(
      (_, i) => weighPreference(preference(now.slice(2 * i), before.slice(2 * i)), 1 / pairs.length, options).tally,
    );
    return Object.fromEntries(Object.entries(dpoMetrics(tallies)).map(([key, value]) => [`eval_${key}`, value]));
  }

  return {
    totalSteps: stepsOf("dpo", values, examples.count),
    gather,
    evaluate: heldOut && evaluate,
    epoch: () => epochsPassed(order.state(), examples.count),
    order: order.state,
    left: () => null,
    warning: leftOutWords(examples, "max_length cuts off all of chosen or rejected"),
  };
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
