import { describe, expect, test } from "bun:test";
import { openRandom, type Random } from "../../random.ts";
import {
  activeTokens,
  clippedLoss,
  GRPO_LOSSES,
  type GrpoOptions,
  k3,
  lossScales,
  type Rollout,
  SAMPLING_LEVELS,
  uncertainTokens,
  weighRollout,
} from "./grpo.ts";
import { grpoMetrics, joinTallies } from "./grpo_metrics.ts";
import { CORRECTION_MODES, type Correction } from "./importance.ts";

const plain: GrpoOptions = {
  surrogate: "clip",
  sapoTemperatures: { positive: 1, negative: 1.05 },
  epsilon: 0.2,
  epsilonHigh: 0.2,
  delta: null,
  beta: 0,
  importanceSamplingLevel: "token",
  correction: null,
  distillation: null,
  correctsKl: false,
  offPolicyThreshold: null,
};
const all = (length: number) => new Uint8Array(length).fill(1);
const rollout = (logp: number[], advantage: number, more: Partial<Rollout> = {}): Rollout => ({
  logp,
  logpOld: null,
  logpRef: null,
  logpTeacher: null,
  uncertain: null,
  logpSampler: null,
  entropy: null,
  active: all(logp.length),
  advantage,
  ...more,
});

describe("by hand", () => {
  test("at the first pass the ratio is 1: a token's weight is the advantage times the scale", () => {
    const { weights, loss } = weighRollout(rollout([-1, -2], 0.5), 0.25, plain);
    expect([...weights]).toEqual([0.125, 0.125]);
    expect(loss).toBeCloseTo(-0.25, 12); // −1 · 0.5 · 0.25, twice
  });

  test("a ratio above the bound stops a gain, a ratio below it stops a loss, nothing else", () => {
    const up = Math.log(1.5);
    const down = Math.log(0.5);
    expect(clippedLoss(up, 1, plain)).toEqual({ loss: -1.2, slope: 0 });
    expect(clippedLoss(down, -1, plain)).toEqual({ loss: 0.8, slope: 0 });
    expect(clippedLoss(up, -1, plain).loss).toBeCloseTo(1.5, 12);
    expect(clippedLoss(up, -1, plain).slope).toBeCloseTo(1.5, 12);
    expect(clippedLoss(down, 1, plain).slope).toBeCloseTo(-0.5, 12);
  });

  test("epsilon_high widens only the upper bound; delta bounds the loss of negative advantages", () => {
    const options = { ...plain, epsilonHigh: 0.28, delta: 4 };
    expect(clippedLoss(Math.log(1.25), 1, options).slope).toBeCloseTo(-1.25, 12);
    expect(clippedLoss(Math.log(1.3), 1, options)).toEqual({ loss: -1.28, slope: 0 });
    expect(clippedLoss(Math.log(0.79), -1, options)).toEqual({ loss: 0.8, slope: 0 });
    expect(clippedLoss(Math.log(5), -1, options)).toEqual({ loss: 4, slope: 0 });
  });

  test("k3 is e^d − d − 1 and pulls toward the reference from both sides", () => {
    expect(k3(0)).toEqual({ value: 0, slope: 0 });
    expect(k3(Math.log(2)).value).toBeCloseTo(2 - Math.log(2) - 1, 12);
    expect(k3(Math.log(2)).slope).toBeCloseTo(-1, 12); // less likely than by the reference: the loss falls as logp rises
    expect(k3(Math.log(0.5)).slope).toBeCloseTo(0.5, 12);
  });

  test("a whole case: two tokens, one clipped, with KL", () => {
    // A 2, scale 1/2. Token 0: r = e^0.5 = 1.6487 > 1.2 → −2.4, slope 0. Token 1: r = e^−0.1 = 0.9048 → −1.8097, slope the same.
    // KL, beta 0.1: d = −0.5 → e^−0.5 + 0.5 − 1 = 0.10653, slope 1 − e^−0.5 = 0.39347; d = 0.1 → 0.0051709, slope −0.1051709
    const { weights, loss, tally } = weighRollout(
      rollout([-1, -2], 2, { logpOld: [-1.5, -1.9], logpRef: [-1.5, -1.9] }),
      0.5,
      { ...plain, beta: 0.1 },
    );
    const [e0, e1] = [Math.exp(-0.5), Math.exp(-0.1)];
    expect(loss).toBeCloseTo(0.5 * (-2.4 - 2 * e1 + 0.1 * (e0 + 0.5 - 1) + 0.1 * (1 / e1 - 0.1 - 1)), 12);
    expect(weights[0]).toBeCloseTo(-0.5 * 0.1 * (1 - e0), 7);
    expect(weights[1]).toBeCloseTo(0.5 * (2 * e1 - 0.1 * (1 - 1 / e1)), 7);
    const metrics = grpoMetrics(tally);
    expect(metrics["clip_ratio/high_mean"]).toBe(0.5);
    expect(metrics["clip_ratio/low_mean"]).toBe(0);
    expect(metrics["clip_ratio/region_mean"]).toBe(0.5);
    expect(metrics["kl"]).toBeCloseTo((e0 - 0.5 + 1 / e1 - 1.1) / 2, 12);
    expect(metrics["ratio/max"]).toBeCloseTo(1 / e0, 12);
  });

  test("scales: three completions of 2, 4 and 0 tokens in batches of two, at most 10 tokens each", () => {
    const scales = (lossType: (typeof GRPO_LOSSES)[number]) => [
      ...lossScales([2, 4, 0], { lossType, batchSize: 2, maxCompletionLength: 10 }),
    ];
    expect(scales("grpo")).toEqual([1 / 6, 1 / 12, 1 / 3]);
    expect(scales("dapo")).toEqual([1 / 6, 1 / 6, 1 / 6]);
    expect(scales("dr_grpo")).toEqual([1 / 30, 1 / 30, 1 / 30]);
    expect(scales("bnpo")).toEqual([1 / 12, 1 / 12, 1 / 2]);
    expect(scales("cispo")).toEqual([1 / 6, 1 / 6, 1 / 6]);
    expect(scales("gspo")).toEqual([1 / 6, 1 / 12, 1 / 3]);
    expect(scales("sapo")).toEqual([1 / 6, 1 / 12, 1 / 3]);
  });

  test("the loss ignores completions without a reward, truncated ones on request, and tokens of a tool", () => {
    const fate = { tokens: 3, scored: true, truncated: false };
    expect([...activeTokens(fate, true)]).toEqual([1, 1, 1]);
    expect([...activeTokens({ ...fate, scored: false }, false)]).toEqual([0, 0, 0]);
    expect([...activeTokens({ ...fate, truncated: true }, true)]).toEqual([0, 0, 0]);
    expect([...activeTokens({ ...fate, truncated: true }, false)]).toEqual([1, 1, 1]);
    expect([...activeTokens({ ...fate, written: Uint8Array.of(1, 0, 1) }, false)]).toEqual([1, 0, 1]);
  });

  test("a token that the teacher finds likelier gains, and another one loses, at most by the clip", () => {
    const given = rollout([-1, -2, -3], 0.5, { logpTeacher: [-0.5, -4, -90] });
    const { weights, tally } = weighRollout(given, 1, { ...plain, distillation: { weight: 2, clip: 10 } });
    expect([...weights]).toEqual([1.5, -3.5, -19.5]); // 0.5 + 2 · 0.5, 0.5 − 2 · 2, 0.5 − 2 · 10
    expect(grpoMetrics(tally)["teacher_kl"]).toBeCloseTo((-0.5 + 2 + 87) / 3, 12);
  });

  test("masked tokens have weight 0 and are in no metric", () => {
    const given = rollout([-1, -9, -1], 1, {
      active: Uint8Array.of(1, 0, 1),
      logpOld: [-1, -1, -1],
      entropy: [1, 50, 2],
    });
    const { weights, tally } = weighRollout(given, 1, plain);
    expect([...weights]).toEqual([1, 0, 1]);
    expect(grpoMetrics(tally)).toMatchObject({ entropy: 1.5, "ratio/min": 1 });
  });

  test("no value of logp gives a weight that is not a number", () => {
    for (const level of SAMPLING_LEVELS) {
      const given = rollout([-1, -900], -1, { logpOld: [-900, -1], logpRef: [-1, -1], logpSampler: [-1, -900] });
      const correction: Correction = { mode: "token_mask", clipMin: null, clipMax: null };
      const { weights, loss } = weighRollout(given, 1, {
        ...plain,
        beta: 1,
        importanceSamplingLevel: level,
        correction,
      });
      expect([...weights, loss].every(Number.isFinite)).toBe(true);
    }
  });
});

/**
 * The loss as TRL writes it, over whole arrays and with nothing shared with the code under test. `frozen`: log
 * probabilities of the ratio that cispo takes no gradient through.
 */
function lossByFormula(
  { logp, logpOld, logpRef, logpTeacher, logpSampler, active, advantage: ofCompletion }: Rollout,
  scale: number,
  o: GrpoOptions,
  frozen: ArrayLike<number> = logp,
) {
  const at = Array.from(active, (own, t) => (own ? t : -1)).filter((t) => t >= 0);
  const gaps = at.map((t) => logpOld![t]! - logpSampler![t]!);
  const bounded = (rho: number) => {
    if (o.correction === null) return 1;
    const [least, most] = [o.correction.clipMin ?? 0, o.correction.clipMax ?? Number.MAX_VALUE];
    if (o.correction.mode.endsWith("mask")) return rho < least || rho > most ? 0 : rho;
    return Math.max(least, Math.min(rho, most));
  };
  const whole = bounded(Math.exp(gaps.reduce((a, b) => a + b, 0)));
  const from = o.surrogate === "cispo" ? frozen : logp;
  const meanOf = (of: ArrayLike<number>) => at.reduce((sum, t) => sum + of[t]! - logpOld![t]!, 0) / at.length;
  const meanRatio = Math.exp(meanOf(from));
  const away = at.reduce((sum, t) => sum + logpSampler![t]! - frozen[t]!, 0) / at.length;
  return at.reduce((sum, t, i) => {
    const r = o.importanceSamplingLevel === "token" ? Math.exp(from[t]! - logpOld![t]!) : meanRatio;
    const own = Math.exp(logp[t]! - logpOld![t]!);
    const ratio = o.importanceSamplingLevel === "token" ? own : Math.exp(meanOf(logp));
    const kept = Math.max(1 - o.epsilon, Math.min(r, 1 + o.epsilonHigh));
    const free = o.delta !== null && r > o.delta ? o.delta : r;
    const rho = o.correction?.mode.startsWith("sequence") ? whole : bounded(Math.exp(gaps[i]!));
    const d = logpRef![t]! - logp[t]!;
    const { weight, clip } = o.distillation ?? { weight: 0, clip: 1 };
    const advantage = ofCompletion + weight * Math.max(-clip, Math.min(logpTeacher![t]! - logpOld![t]!, clip));
    const tau = advantage > 0 ? o.sapoTemperatures.positive : o.sapoTemperatures.negative;
    const policy = {
      clip: -Math.min(free * advantage, kept * advantage),
      cispo: -Math.min(r, o.epsilonHigh) * advantage * logp[t]!,
      sapo: ((-4 / tau) * advantage) / (1 + Math.exp(tau * (1 - r))),
    }[o.surrogate];
    const isLeftOut = o.offPolicyThreshold !== null && advantage < 0 && away > o.offPolicyThreshold;
    const kl = (Math.exp(d) - d - 1) * (o.correctsKl ? ratio : 1);
    return sum + scale * ((isLeftOut ? 0 : policy * rho) + o.beta * kl);
  }, 0);
}

function someRollout(random: Random): Rollout {
  const tokens = 1 + Math.floor(random() * 6);
  const near = (logp: number[], by: number) => logp.map((value) => value + by * (random() - 0.5));
  const logp = Array.from({ length: tokens }, () => -3 * random());
  const logpOld = near(logp, 1.2);
  const active = Uint8Array.from({ length: tokens }, (_, t) => (t === 0 || random() < 0.8 ? 1 : 0));
  const advantage = 4 * (random() - 0.5);
  const logpTeacher = near(logpOld, 6);
  const logpRef = near(logp, 1);
  return {
    logp,
    logpOld,
    logpRef,
    logpTeacher,
    logpSampler: near(logpOld, 0.6),
    entropy: null,
    uncertain: null,
    active,
    advantage,
  };
}

describe("against TRL's formula and finite differences", () => {
  const corrections: (Correction | null)[] = [
    null,
    ...CORRECTION_MODES.map((mode) => ({ mode, clipMin: 0.8, clipMax: 1.2 })),
    { mode: "sequence_mask", clipMin: null, clipMax: 3 },
  ];
  const clipping: GrpoOptions[] = SAMPLING_LEVELS.flatMap((importanceSamplingLevel) =>
    corrections.flatMap((correction) =>
      [0, 0.3].flatMap((beta) =>
        [null, 1.3].map((delta) => ({ ...plain, epsilonHigh: 0.28, importanceSamplingLevel, correction, beta, delta })),
      ),
    ),
  );
  const others: GrpoOptions[] = (["cispo", "sapo"] as const).flatMap((surrogate) =>
    SAMPLING_LEVELS.flatMap((importanceSamplingLevel) =>
      corrections.slice(0, 3).map((correction) => ({
        ...plain,
        surrogate,
        importanceSamplingLevel,
        correction,
        beta: 0.3,
        epsilonHigh: 1.2,
        sapoTemperatures: { positive: 0.8, negative: 1.5 },
      })),
    ),
  );
  const distilling = [...clipping, ...others].flatMap((options) =>
    options.importanceSamplingLevel === "token" && options.delta === null
      ? [{ ...options, distillation: { weight: 0.7, clip: 2 } }]
      : [],
  );
  const corrected = [...clipping, ...others]
    .filter(({ beta }) => beta > 0)
    .map((options) => ({ ...options, correctsKl: true, offPolicyThreshold: 0.1 }));
  const cases = [...clipping, ...others, ...distilling, ...corrected];

  test.each(cases)("the loss is TRL's and the weights are its derivative: %j", (options) => {
    const random = openRandom(11);
    for (let round = 0; round < 40; round++) {
      const given = someRollout(random);
      const scale = 0.1 + random();
      const { weights, loss } = weighRollout(given, scale, options);
      expect(loss).toBeCloseTo(lossByFormula(given, scale, options), 10);
      const step = 1e-6;
      for (let t = 0; t < weights.length; t++) {
        const moved = (by: number) => Array.from(given.logp, (value, u) => (u === t ? value + by : value));
        const lossAt = (by: number) => lossByFormula({ ...given, logp: moved(by) }, scale, options, given.logp);
        const left = (loss - lossAt(-step)) / step;
        const right = (lossAt(step) - loss) / step;
        if (Math.abs(left - right) > 1e-3) continue; // the step crosses a kink
        expect(Math.abs(-weights[t]! - (left + right) / 2)).toBeLessThan(1e-6 + 1e-5 * Math.abs(weights[t]!));
      }
    }
  });

  test.each([...GRPO_LOSSES])(
    "a step of %s may be computed in any parts: loss, weights and metrics are the same",
    (lossType) => {
      const random = openRandom(5);
      const rollouts = Array.from({ length: 8 }, () => someRollout(random));
      const counts = rollouts.map(({ active }) => active.reduce((a, b) => a + b, 0));
      const scales = lossScales(counts, { lossType, batchSize: 4, maxCompletionLength: 6 });
      const weighed = rollouts.map((each, i) => weighRollout(each, scales[i]!, { ...plain, beta: 0.1 }));
      const whole = joinTallies(weighed.map(({ tally }) => tally));
      const halves = [weighed.slice(0, 3), weighed.slice(3)].map((half) => joinTallies(half.map(({ tally }) => tally)));
      const joined = grpoMetrics(joinTallies(halves));
      for (const [key, value] of Object.entries(grpoMetrics(whole))) expect(joined[key]).toBeCloseTo(value, 12);
      // Computes the normalizers again as sums over the step: token losses with scale 1, divided as in TRL.
      const sums = rollouts.map((each) => weighRollout(each, 1, { ...plain, beta: 0.1 }).loss);
      const add = (values: number[]) => values.reduce((a, b) => a + b, 0);
      const expected = {
        grpo: add(sums.map((sum, i) => sum / counts[i]!)) / 8,
        bnpo: (add(sums.slice(0, 4)) / add(counts.slice(0, 4)) + add(sums.slice(4)) / add(counts.slice(4))) / 2,
        dr_grpo: add(sums) / (8 * 6),
        dapo: add(sums) / add(counts),
        cispo: add(sums) / add(counts),
        gspo: add(sums.map((sum, i) => sum / counts[i]!)) / 8,
        sapo: add(sums.map((sum, i) => sum / counts[i]!)) / 8,
      };
      expect(whole.loss).toBeCloseTo(expected[lossType], 12);
    },
  );

  test("the first pass is the later passes' formula with logp_old = logp", () => {
    const random = openRandom(9);
    for (let round = 0; round < 50; round++) {
      const given = someRollout(random);
      const first = weighRollout({ ...given, logpOld: null }, 1, { ...plain, beta: 0.2 });
      const later = weighRollout({ ...given, logpOld: given.logp }, 1, { ...plain, beta: 0.2 });
      expect(first).toEqual(later);
    }
  });
});

describe("top_entropy_quantile", () => {
  test("marks the tokens of a step with the highest entropy among those that count, as torch.quantile divides them", () => {
    const entropies = [
      [0.1, 0.9, 5],
      [0.5, 0.3],
    ];
    const active = [Uint8Array.of(1, 1, 0), Uint8Array.of(1, 1)]; // the 5 is a tool's token
    // quantile(0.5) of 0.1, 0.3, 0.5, 0.9 is 0.4
    expect(uncertainTokens(entropies, active, 0.5).map((each) => [...each])).toEqual([
      [0, 1, 1],
      [1, 0],
    ]);
    expect(uncertainTokens(entropies, active, 1).map((each) => [...each])).toEqual([
      [1, 1, 1],
      [1, 1],
    ]);
  });

  test("a token that is left out has no advantage, keeps the KL term, and still counts as a token", () => {
    const given = rollout([-1, -2], 0.5, { uncertain: Uint8Array.of(1, 0) });
    const { weights, tally } = weighRollout(given, 0.25, plain);
    expect(weights[0]).toBeCloseTo(0.125, 6);
    expect(weights[1]).toBeCloseTo(0, 12);
    expect(tally.tokens).toBe(2);
    const withKl = weighRollout({ ...given, logpRef: [-1, -1.5] }, 1, { ...plain, beta: 0.1 });
    expect(withKl.weights[1]).not.toBe(0);
  });
});
