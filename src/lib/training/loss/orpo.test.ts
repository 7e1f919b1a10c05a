import { describe, expect, test } from "bun:test";
import { openRandom } from "../../random.ts";
import { orpoMetrics, weighOdds } from "./orpo.ts";

describe("by hand", () => {
  // Chosen: a prompt token of −2, then an answer with mean log ½: p = ½, odds 1. Rejected: mean log ⅕: odds ¼.
  const pair = { chosen: [-2, Math.log(0.25), 0], answerFrom: 1, rejected: [Math.log(0.2), Math.log(0.2)] };
  const options = { beta: 0.1, pairScale: 1, tokenScale: 1 / 3 };

  test("the odds ratio is 4: log σ(log 4) = log 0.8", () => {
    const { tally } = weighOdds(pair, options);
    expect(tally.logOdds).toBeCloseTo(Math.log(4), 12);
    expect(tally.ratio).toBeCloseTo(Math.log(0.8), 12);
    expect(tally.nll).toBeCloseTo((2 + Math.log(4)) / 3, 12);
    expect(tally.loss).toBeCloseTo((2 + Math.log(4)) / 3 - 0.1 * Math.log(0.8), 12);
  });

  test("weights: 1/3 for the likelihood; β·σ(−log 4)·1/(1 − p)/tokens for the odds", () => {
    const { chosen, rejected } = weighOdds(pair, options);
    expect(chosen[0]).toBeCloseTo(1 / 3, 6); // the prompt counts in the likelihood only
    for (const t of [1, 2]) expect(chosen[t]).toBeCloseTo(1 / 3 + (0.1 * 0.2 * 2) / 2, 6);
    for (const weight of rejected) expect(weight).toBeCloseTo((-0.1 * 0.2 * 1.25) / 2, 6);
  });

  test("metrics: means over pairs, with rewards by β and accuracies by likelihood", () => {
    const other = { chosen: [-3, -3], answerFrom: 0, rejected: [-1] };
    const tallies = [pair, other].map((each) => weighOdds(each, { beta: 0.5, pairScale: 0.5, tokenScale: 0.2 }).tally);
    const metrics = orpoMetrics(tallies, 0.5);
    expect(metrics["logps/chosen"]).toBeCloseTo((Math.log(0.5) - 3) / 2, 12);
    expect(metrics["logps/rejected"]).toBeCloseTo((Math.log(0.2) - 1) / 2, 12);
    expect(metrics["rewards/margins"]).toBeCloseTo((0.5 * (Math.log(2.5) - 2)) / 2, 12);
    expect(metrics["rewards/accuracies"]).toBe(0.5);
    expect(metrics["nll_loss"]).toBeCloseTo(0.2 * (2 + Math.log(4) + 6), 12);
    const odds = -3 - Math.log(1 - Math.exp(-3)) - (-1 - Math.log(1 - Math.exp(-1)));
    expect(metrics["log_odds_chosen"]).toBeCloseTo((Math.log(4) + odds) / 2, 12);
    expect(metrics["loss"]).toBeCloseTo(metrics["nll_loss"]! - 0.5 * metrics["log_odds_ratio"]!, 12);
  });

  test("answers of any probability give finite numbers", () => {
    for (const chosen of [[0, 0], [-1e-12], [-5000]])
      for (const rejected of [[0], [-5000, -5000]]) {
        const weighed = weighOdds({ chosen, answerFrom: 0, rejected }, { ...options, tokenScale: 1 });
        expect([...weighed.chosen, ...weighed.rejected, weighed.tally.loss].every(Number.isFinite)).toBe(true);
      }
  });
});

test("the weights are the derivative of NLL − β·log σ(log odds ratio)", () => {
  const random = openRandom(31);
  const some = (length: number) => Array.from({ length }, () => -0.05 - 2 * random());
  for (let round = 0; round < 100; round++) {
    const answerFrom = Math.floor(3 * random());
    const given = { chosen: some(answerFrom + 3), rejected: some(1 + Math.floor(3 * random())) };
    const [beta, pairScale, tokenScale] = [0.1 + random(), 0.5, 0.1];
    const lossAt = (chosen: readonly number[], rejected: readonly number[]) => {
      const p = (values: readonly number[]) => Math.exp(values.reduce((a, b) => a + b, 0) / values.length);
      const [better, worse] = [p(chosen.slice(answerFrom)), p(rejected)];
      const ratio = (better / (1 - better)) * ((1 - worse) / worse);
      const nll = -chosen.reduce((a, b) => a + b, 0) * tokenScale;
      return nll - beta * pairScale * Math.log(ratio / (1 + ratio));
    };
    const weighed = weighOdds({ ...given, answerFrom }, { beta, pairScale, tokenScale });
    expect(weighed.tally.loss).toBeCloseTo(lossAt(given.chosen, given.rejected), 10);
    for (const side of ["chosen", "rejected"] as const)
      given[side].forEach((_, t) => {
        const by = (delta: number) => {
          const moved = { ...given, [side]: given[side].map((value, u) => (u === t ? value + delta : value)) };
          return lossAt(moved.chosen, moved.rejected);
        };
        expect(-weighed[side][t]!).toBeCloseTo((by(1e-5) - by(-1e-5)) / 2e-5, 5);
      });
  }
});
