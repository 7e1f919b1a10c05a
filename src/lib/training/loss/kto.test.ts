import { describe, expect, test } from "bun:test";
import { openRandom } from "../../random.ts";
import { KTO_LOSSES, type KtoOptions, klEstimate, ktoMetrics, weighAnswer } from "./kto.ts";

const options: KtoOptions = { lossType: "kto", beta: 0.5, desirableWeight: 1, undesirableWeight: 1 };
// Log ratio 2 in both.
const good = { logp: [-1, -1], logpRef: [-2, -2], isGood: true };
const bad = { logp: [-1], logpRef: [-3], isGood: false };

describe("by hand: log ratio 2, beta 0.5, KL 1, so σ(0.5) = 0.622459", () => {
  const of = { kl: 1, scale: 0.5 };

  test("a good answer: 1 − σ(0.5), and each token is pulled up by β·σ·(1 − σ)", () => {
    const { weights, tally } = weighAnswer(good, of, options);
    expect(tally.loss).toBeCloseTo(0.5 * 0.3775406687981454, 12);
    for (const weight of weights) expect(weight).toBeCloseTo(0.25 * 0.6224593312018546 * 0.3775406687981454, 7);
  });

  test("a bad answer: 1 − σ(−0.5), and its token is pushed down", () => {
    const { weights, tally } = weighAnswer(bad, of, options);
    expect(tally.loss).toBeCloseTo(0.5 * 0.6224593312018546, 12);
    expect(weights[0]).toBeCloseTo(-0.25 * 0.6224593312018546 * 0.3775406687981454, 7);
  });

  test("the weights of both kinds scale loss and gradient", () => {
    const weighted = { ...options, desirableWeight: 3, undesirableWeight: 0 };
    expect(weighAnswer(good, of, weighted).tally.loss).toBeCloseTo(1.5 * 0.3775406687981454, 12);
    expect([...weighAnswer(bad, of, weighted).weights].map(Math.abs)).toEqual([0]);
  });

  test("apo_zero_unpaired has no KL: 1 − σ(1) and σ(1)", () => {
    const apo: KtoOptions = { ...options, lossType: "apo_zero_unpaired" };
    expect(weighAnswer(good, of, apo).tally.loss).toBeCloseTo(0.5 * 0.2689414213699951, 12);
    expect(weighAnswer(bad, of, apo).tally.loss).toBeCloseTo(0.5 * 0.7310585786300049, 12);
  });

  test("the KL estimate is the mean log ratio of mismatched answers, at least 0", () => {
    expect(klEstimate([good, { logp: [-2], logpRef: [-1] }])).toBe(0.5);
    expect(klEstimate([{ logp: [-2, -2], logpRef: [-1, -1] }])).toBe(0);
    expect(klEstimate([])).toBe(0);
  });

  test("metrics are means over each kind; without one kind there is no margin", () => {
    const tallies = [good, bad, { ...bad, logp: [-3] }].map((each) => weighAnswer(each, of, options).tally);
    const metrics = ktoMetrics(tallies, 1);
    expect(metrics).toMatchObject({ kl: 1, "rewards/chosen": 1, "rewards/rejected": 0.5, "rewards/margins": 0.5 });
    expect(metrics).toMatchObject({ "logps/chosen": -2, "logps/rejected": -2 });
    expect(metrics["loss"]).toBeCloseTo(0.5 * (0.3775406687981454 + 0.6224593312018546 + 0.3775406687981454), 12);
    expect(Object.keys(ktoMetrics(tallies.slice(0, 1), 0))).toEqual(["loss", "kl", "rewards/chosen", "logps/chosen"]);
  });
});

test.each([...KTO_LOSSES])("the weights of %s are the derivative of its loss", (lossType) => {
  const random = openRandom(41);
  for (let round = 0; round < 100; round++) {
    const logp = Array.from({ length: 3 }, () => -2 * random());
    const logpRef = logp.map((value) => value + random() - 0.5);
    const isGood = random() < 0.5;
    const [kl, scale, beta] = [random(), 0.3, 0.1 + random()];
    const lossAt = (moved: readonly number[]) => {
      const r = moved.reduce((sum, value, t) => sum + value - logpRef[t]!, 0);
      const z = lossType === "kto" ? kl : 0;
      return isGood ? (scale * 2) / (1 + Math.exp(beta * (r - z))) : (scale * 3) / (1 + Math.exp(beta * (z - r)));
    };
    const given = { lossType, beta, desirableWeight: 2, undesirableWeight: 3 };
    const { weights, tally } = weighAnswer({ logp, logpRef, isGood }, { kl, scale }, given);
    expect(tally.loss).toBeCloseTo(lossAt(logp), 10);
    for (let t = 0; t < 3; t++) {
      const by = (delta: number) => lossAt(logp.map((value, u) => (u === t ? value + delta : value)));
      expect(-weights[t]!).toBeCloseTo((by(1e-5) - by(-1e-5)) / 2e-5, 6);
    }
  }
});
