import { describe, expect, test } from "bun:test";
import { cohenKappa, krippendorffAlpha } from "../../../../test/agreement.ts";
import type { KappaWeights, Label, Level } from "./agreement.ts";
import { bootstrapInterval, mean, quantile, standardError, variance } from "./describe.ts";
import { fairCoins, lnGamma, studentTwoSided } from "./distributions.ts";
import { differences, mcnemar, pairedT, signFlip } from "./paired.ts";
import reference from "./reference.json" with { type: "json" };

type Result = { statistic: number; p: number };
type Paired = {
  deltas: number[];
  mean: number;
  standard_error: number;
  t: Result;
  sign_flip?: Result;
  interval: { low: number; high: number };
};
const paired = Object.entries(reference.paired as Record<string, Paired>);

/** Equal to 1e-10 of the value. */
function close(actual: number | null, wanted: number) {
  expect(actual).not.toBeNull();
  expect(Math.abs(actual! - wanted)).toBeLessThanOrEqual(Math.abs(wanted) * 1e-10 + 1e-14);
}

describe("reference values", () => {
  test("Student's tails are SciPy's", () => {
    for (const [t, df, p] of reference.student as [number, number, number][]) close(studentTwoSided(t, df), p);
  });

  test.each(paired)("%s: mean, standard error and paired tests", async (_, wanted) => {
    const { deltas } = wanted;
    close(mean(deltas), wanted.mean);
    close(standardError(deltas), wanted.standard_error);
    const t = pairedT(deltas);
    close(t.statistic, wanted.t.statistic);
    close(t.p, wanted.t.p);
    if (wanted.sign_flip) {
      const { statistic, p } = await signFlip(deltas, { seed: 1 });
      close(statistic, wanted.sign_flip.statistic);
      close(p, wanted.sign_flip.p);
    }
  });

  test.each(paired)("%s: the bootstrap interval is SciPy's within a fifth of a standard error", async (_, wanted) => {
    const interval = (await bootstrapInterval(wanted.deltas, { seed: 5, resamples: 20_000 }))!;
    const margin = wanted.standard_error / 5; // means of few whole numbers move in steps
    expect(Math.abs(interval.low - wanted.interval.low)).toBeLessThan(margin);
    expect(Math.abs(interval.high - wanted.interval.high)).toBeLessThan(margin);
  });

  test("McNemar's test is SciPy's binomial test", () => {
    for (const [gained, lost, p] of reference.mcnemar as [number, number, number][])
      close(mcnemar({ gained, lost }).p, p);
  });

  test("kappa and alpha are those that all pairs give", () => {
    for (const { first, second, categories, weights, value } of reference.kappa)
      close(cohenKappa(first, second as Label[], { categories, weights: weights as KappaWeights }).value, value);
    for (const { units, categories, level, value } of reference.alpha)
      close(
        krippendorffAlpha(units as Label[][], {
          level: level as Level,
          ...(categories ? { categories: categories as (string | number)[] } : {}),
        }).value,
        value,
      );
  });

  test("Krippendorff's example has the values that he published", () => {
    const published = { nominal: 0.743, ordinal: 0.815, interval: 0.849 };
    const { units } = reference.alpha[0]!;
    for (const [level, value] of Object.entries(published))
      expect(krippendorffAlpha(units as Label[][], { level: level as Level })).toEqual({
        value: expect.closeTo(value, 3),
        items: 11,
      });
  });
});

describe("cases computed by hand", () => {
  test("describe: 2, 4, 4, 4, 5, 5, 7, 9", () => {
    const values = [2, 4, 4, 4, 5, 5, 7, 9];
    expect(mean(values)).toBe(5);
    close(variance(values), 32 / 7);
    close(standardError(values), Math.sqrt(4 / 7));
    expect(quantile([1, 2, 3, 4], 0.5)).toBe(2.5);
    expect(quantile([1, 2, 3, 4], 1)).toBe(4);
    expect(mean([])).toBeNaN();
    expect(variance([1])).toBeNaN();
  });

  test("Γ(5) = 24, Γ(1/2) = √π, and one of three coins or fewer falls 4 times of 8", () => {
    close(Math.exp(lnGamma(5)), 24);
    close(Math.exp(lnGamma(0.5)), Math.sqrt(Math.PI));
    close(Math.exp(lnGamma(0.25)), 3.625609908221908);
    close(fairCoins(1, 3), 0.5);
    expect(fairCoins(3, 3)).toBe(1);
  });

  test("pairs: 3 of 3 upward", async () => {
    // Two of eight sign patterns are as extreme.
    expect(await signFlip([1, 2, 3], { seed: 1 })).toEqual({ statistic: 2, p: 0.25, n: 3, exact: true });
    close(pairedT([1, 2, 3]).statistic, 2 * Math.sqrt(3));
    // Ranks 1.5, 1.5 and 3: sums of 1.5 or less, or of 4.5 or more, are 6 of 8 patterns.
    // Pratt ranks the zero first: the ranks are 2 and 3, the patterns 0, 2, 3, 5.
    expect(mcnemar({ gained: 0, lost: 3 })).toEqual({ statistic: 0, p: 0.25, n: 3 });
    expect(differences([1, 0], [0, 1])).toEqual([1, -1]);
    expect(() => differences([1], [])).toThrow("differ in length");
  });

  test("a sample that can show nothing gives p 1", async () => {
    for (const deltas of [[], [0], [0, 0, 0]])
      for (const result of [pairedT(deltas), await signFlip(deltas, { seed: 1 })]) expect(result.p).toBe(1);
    expect(pairedT([2]).p).toBe(1);
    expect(mcnemar({ gained: 0, lost: 0 }).p).toBe(1);
    expect(pairedT([1, 1, 1]).p).toBe(0); // no variance at all
  });

  test("kappa: 20 yes/yes, 5 yes/no, 10 no/yes, 15 no/no is 0.4", () => {
    const table = [
      ["yes", "yes", 20],
      ["yes", "no", 5],
      ["no", "yes", 10],
      ["no", "no", 15],
    ] as const;
    const first = table.flatMap(([a, , n]) => new Array<string>(n).fill(a));
    const second = table.flatMap(([, b, n]) => new Array<string>(n).fill(b));
    for (const weights of ["none", "linear", "quadratic"] as const) {
      const kappa = cohenKappa(first, second, { weights });
      expect(kappa).toEqual({ value: expect.closeTo(0.4, 12), items: 50 });
    }
    expect(cohenKappa(["a", "b", null], ["a", "b", "b"])).toEqual({ value: 1, items: 2 });
    expect(cohenKappa(["a", "b"], ["b", "a"])).toEqual({ value: -1, items: 2 });
    expect(cohenKappa(["a", "a"], ["a", "a"])).toEqual({ value: null, items: 2 });
    expect(cohenKappa([null], ["a"])).toEqual({ value: null, items: 0 });
    expect(() => cohenKappa(["x"], ["a"], { categories: ["a"] })).toThrow("categories");
  });

  test("kappa: weights forgive a neighbour more than a far label", () => {
    // Pairs (1,1) (2,2) (3,3) (1,3). Linear: cost 2/4 seen; by chance (2·(0+1+2·2) + (1+0+1·2) + (2+1+0))/16 = 1.
    const [first, second] = [
      [1, 2, 3, 1],
      [1, 2, 3, 3],
    ];
    expect(cohenKappa(first!, second!, { weights: "linear" }).value).toBeCloseTo(0.5, 12);
    const near = cohenKappa(first!, [1, 2, 3, 2], { weights: "quadratic" }).value!;
    expect(near).toBeGreaterThan(cohenKappa(first!, second!, { weights: "quadratic" }).value!);
  });

  test("alpha: two annotators, one of three units differs", () => {
    // Nominal: observed 2/6, expected (2·3·3)/(6·5) = 18/30; 1 − (1/3)/(3/5) = 4/9.
    const units = [
      ["a", "a"],
      ["b", "b"],
      ["a", "b"],
    ];
    expect(krippendorffAlpha(units)).toEqual({ value: expect.closeTo(4 / 9, 12), items: 3 });
    expect(krippendorffAlpha([["a", "a"], ["a", null], []])).toEqual({ value: null, items: 1 });
    expect(krippendorffAlpha([["a"], [null, null]])).toEqual({ value: null, items: 0 });
    expect(() => krippendorffAlpha(units, { level: "interval" })).toThrow("numbers");
    expect(() => krippendorffAlpha(units, { categories: ["a"] })).toThrow("categories");
  });
});

describe("random draws", () => {
  const values = Array.from({ length: 40 }, (_, i) => Math.sin(i) + 0.4);

  test("the same seed gives the same interval and the same p", async () => {
    const interval = await bootstrapInterval(values, { seed: 3 });
    expect(await bootstrapInterval(values, { seed: 3 })).toEqual(interval);
    expect(await bootstrapInterval(values, { seed: 4 })).not.toEqual(interval);
    expect(await signFlip(values, { seed: 3 })).toEqual(await signFlip(values, { seed: 3 }));
    expect(await bootstrapInterval([1], { seed: 1 })).toBeNull();
  });

  test("drawn sign patterns agree with the t-test and never give 0", async () => {
    const drawn = await signFlip(values, { seed: 3 });
    expect(drawn.exact).toBe(false);
    expect(Math.abs(drawn.p - pairedT(values).p)).toBeLessThan(0.01);
    expect((await signFlip(new Array(40).fill(1), { seed: 3, resamples: 99 })).p).toBe(0.01);
  });

  test("many values take the normal interval", async () => {
    const many = Array.from({ length: 1_200 }, (_, i) => i % 2);
    const interval = (await bootstrapInterval(many, { seed: 1 }))!;
    const drawn = (await bootstrapInterval(many.slice(0, 1_000), { seed: 1 }))!;
    expect(interval.high - 0.5).toBeCloseTo(1.96 * standardError(many), 5);
    expect(drawn.high - 0.5).toBeCloseTo(1.96 * standardError(many.slice(0, 1_000)), 2);
  });
});
