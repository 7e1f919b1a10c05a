import { describe, expect, test } from "bun:test";
import { openRandom } from "../../random.ts";
import { DPO_LOSSES, type DpoOptions, dpoMetrics, type Preference, weighPreference } from "./dpo.ts";

const all = (length: number) => new Uint8Array(length).fill(1);
const pair: Preference = {
  chosen: { logp: [-1, -1], logpRef: [-1.5, -1.5], active: all(2) }, // log ratio 1
  rejected: { logp: [-3], logpRef: [-2], active: all(1) }, // log ratio −1
};
const by = (lossType: DpoOptions["lossType"], more: Partial<DpoOptions> = {}): DpoOptions => ({
  lossType,
  beta: 0.5,
  labelSmoothing: 0,
  ...more,
});
const sigmoid = (x: number) => 1 / (1 + Math.exp(-x));

describe("by hand: log ratios 1 and −1, beta 0.5, so a margin of 1", () => {
  test("sigmoid: −log σ(1), and the gradient β·σ(−1) up for the chosen, down for the rejected", () => {
    const { chosen, rejected, loss } = weighPreference(pair, 1, by("sigmoid"));
    expect(loss).toBeCloseTo(-Math.log(sigmoid(1)), 12);
    for (const weight of chosen) expect(weight).toBeCloseTo(0.5 * sigmoid(-1), 7);
    expect(rejected[0]).toBeCloseTo(-0.5 * sigmoid(-1), 7);
  });

  test("label smoothing 0.1 takes a tenth of the loss the other way round", () => {
    const { loss, chosen } = weighPreference(pair, 1, by("sigmoid", { labelSmoothing: 0.1 }));
    expect(loss).toBeCloseTo(-0.9 * Math.log(sigmoid(1)) - 0.1 * Math.log(sigmoid(-1)), 12);
    expect(chosen[0]).toBeCloseTo(0.5 * (0.9 * sigmoid(-1) - 0.1 * sigmoid(1)), 7);
  });

  test("hinge: nothing is left to gain at a margin of 1, β below it", () => {
    const done = weighPreference(pair, 1, by("hinge"));
    expect([done.loss, ...done.chosen, ...done.rejected].map(Math.abs)).toEqual([0, 0, 0, 0]);
    const { loss, chosen, rejected } = weighPreference(pair, 1, by("hinge", { beta: 0.25 }));
    expect(loss).toBe(0.5);
    expect([...chosen, ...rejected]).toEqual([0.25, 0.25, -0.25]);
  });

  test("ipo: by token, 1/2 − (−1) − 1/(2·0.5) = 0.5, squared", () => {
    const { loss, chosen, rejected } = weighPreference(pair, 1, by("ipo"));
    expect(loss).toBe(0.25);
    expect([...chosen, ...rejected]).toEqual([-0.5, -0.5, 1]);
  });

  test("metrics are rewards by β, their margin and how often it is right", () => {
    // Accuracy compares gains over the reference, not likelihoods: the wrong pair's chosen is likelier, with logp −2
    // against −3.
    const wrong: Preference = {
      chosen: { logp: [-2], logpRef: [-1], active: all(1) },
      rejected: { logp: [-3], logpRef: [-4], active: all(1) },
    };
    const tallies = [pair, wrong, pair].map((each) => weighPreference(each, 1 / 3, by("sigmoid")).tally);
    const metrics = dpoMetrics(tallies);
    expect(metrics["rewards/chosen"]).toBeCloseTo(0.5 / 3, 12);
    expect(metrics["rewards/rejected"]).toBeCloseTo(-0.5 / 3, 12);
    expect(metrics["rewards/margins"]).toBeCloseTo(1 / 3, 12);
    expect(metrics["rewards/accuracies"]).toBeCloseTo(2 / 3, 12);
    expect(metrics["logps/chosen"]).toBeCloseTo((-2 - 2 - 2) / 3, 12);
    expect(metrics["loss"]).toBeCloseTo((-2 * Math.log(sigmoid(1)) - Math.log(sigmoid(-1))) / 3, 12);
  });

  test("margins of any size give finite numbers", () => {
    const far = { chosen: { ...pair.chosen, logp: [-5000, -5000] }, rejected: { ...pair.rejected, logp: [-1] } };
    const { loss, chosen } = weighPreference(far, 1, by("sigmoid"));
    expect(loss).toBeCloseTo(0.5 * (9997 + 1), 6);
    expect(chosen[0]).toBeCloseTo(0.5, 6);
  });
});

test.each([...DPO_LOSSES])("the weights of %s are the derivative of its loss", (lossType) => {
  const random = openRandom(17);
  const some = () => {
    const active = Uint8Array.from({ length: 5 }, (_, t) => (t === 2 || random() < 0.7 ? 1 : 0));
    return { logp: [...active].map(() => -2 * random()), logpRef: [...active].map(() => -2 * random()), active };
  };
  for (let round = 0; round < 60; round++) {
    const given = { chosen: some(), rejected: some() };
    const options = by(lossType, { beta: 0.1 + random(), labelSmoothing: lossType === "sigmoid" ? 0.3 * random() : 0 });
    const { chosen, rejected } = weighPreference(given, 0.5, options);
    const step = 1e-5;
    for (const [side, weights] of [
      ["chosen", chosen],
      ["rejected", rejected],
    ] as const)
      for (let t = 0; t < 5; t++) {
        const lossAt = (delta: number) => {
          const logp = given[side].logp.map((value, u) => (u === t ? value + delta : value));
          return weighPreference({ ...given, [side]: { ...given[side], logp } }, 0.5, options).loss;
        };
        expect(-weights[t]!).toBeCloseTo((lossAt(step) - lossAt(-step)) / (2 * step), 5);
      }
  }
});
