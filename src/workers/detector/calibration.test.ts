import { expect, test } from "bun:test";
import given from "../../../models/detector/cases/policy.json";
import { sigmoid } from "../../lib/detection/curve.ts";
import { Calibration, judgeCrop, judgeImage, type Pooling, pool } from "./calibration.ts";

const judge = (logits: readonly number[], features: number[] | undefined, calibration: Calibration, whole?: number) =>
  judgeImage({ logits, features, whole }, calibration);
const calibrate = (logits: readonly number[], calibration: Calibration, whole?: number) =>
  judge(logits, undefined, calibration, whole).score;

const LOGITS = [1, -2, 4, 0, 3];

test.each<[string, Pooling, number]>([
  ["the mean", { kind: "mean" }, 1.2],
  ["the mean of the two highest", { kind: "top_k", k: 2 }, 3.5],
  ["all where k is more than there are", { kind: "top_k", k: 9 }, 1.2],
  ["a fraction is rounded up", { kind: "top_fraction", fraction: 0.5 }, 8 / 3],
  ["a tiny fraction is one", { kind: "top_fraction", fraction: 0.01 }, 4],
  ["softmax of nothing is the mean", { kind: "softmax", beta: 0 }, 1.2],
  ["softmax of much is the maximum", { kind: "softmax", beta: 500 }, 4],
])("pooling: %s", (_name, pooling, pooled) => expect(pool(LOGITS, pooling)).toBeCloseTo(pooled, 10));

const plain: Calibration = { version: "1", pooling: { kind: "mean" }, temperature: 1, isotonic: [] };

test("without a table a score is the sigmoid of the pooled logit over the temperature", () => {
  expect(calibrate(LOGITS, plain)).toBeCloseTo(sigmoid(1.2), 12);
  expect(calibrate(LOGITS, { ...plain, temperature: 4 })).toBeCloseTo(sigmoid(0.3), 12);
});

test("a table is followed on straight lines and is flat outside", () => {
  const isotonic: Calibration["isotonic"] = [
    [0.2, 0.1],
    [0.6, 0.5],
    [0.8, 0.5],
    [0.9, 0.97],
  ];
  const at = (p: number) => calibrate([Math.log(p / (1 - p))], { ...plain, isotonic });
  const seen = [0.01, 0.2, 0.4, 0.6, 0.7, 0.85, 0.99].map((p) => Math.round(at(p) * 1e6) / 1e6);
  expect(seen).toEqual([0.1, 0.1, 0.3, 0.5, 0.5, 0.735, 0.97]);
});

test("extreme logits give numbers between 0 and 1, and NaN is an error", () => {
  expect(calibrate([1e30], plain)).toBe(1);
  expect(calibrate([-1e30], plain)).toBe(0);
  expect(() => calibrate([Number.NaN], plain)).toThrow("NaN");
});

test("the whole image is mixed in before temperature and curves, if the model says so", () => {
  const mixed = Calibration.parse({ ...plain, temperature: 2, whole: { crops: 0.5, whole: 3, bias: -1 } });
  expect(calibrate(LOGITS, mixed, 0.8)).toBeCloseTo(sigmoid((0.5 * 1.2 + 3 * 0.8 - 1) / 2), 12);
  expect(calibrate(LOGITS, plain, 0.8)).toBeCloseTo(sigmoid(1.2), 12);
  expect(() => calibrate(LOGITS, mixed)).toThrow("The network for whole images gave no answer");
  expect(() => calibrate(LOGITS, mixed, Number.NaN)).toThrow("NaN");
  expect(Calibration.safeParse({ ...plain, whole: { crops: 1, whole: 1 } }).success).toBe(false);
});

test("a crop alone is judged as if the network for whole images were undecided", () => {
  const mixed = Calibration.parse({ ...plain, whole: { crops: 0.5, whole: 3, bias: -1 } });
  expect(judgeCrop(4, undefined, mixed)).toBeCloseTo(sigmoid(0.5 * 4 - 1), 12);
  expect(judgeCrop(4, undefined, plain)).toBeCloseTo(sigmoid(4), 12);
});

test("a table that falls is refused, extra figures are not", () => {
  const falling = { ...plain, isotonic: [[0.1, 0.5], [0.2, 0.4]] }; // biome-ignore format: a table
  expect(Calibration.safeParse(falling).success).toBe(false);
  expect(Calibration.safeParse({ ...plain, figures: { auroc: 0.9 } }).success).toBe(true);
});

const FLAT: Calibration = { version: "1", pooling: { kind: "mean" }, temperature: 1, isotonic: [] };
const KINDS = {
  names: ["photo", "anime"],
  weight: [
    [10, 0],
    [0, 10],
  ],
  bias: [0, 0],
  curves: {
    anime: {
      temperature: 1,
      isotonic: [
        [0, 0.4],
        [1, 0.6],
      ] as [number, number][],
    },
  },
};

test("each kind of content has its curve, and an image between two kinds is between their scores", () => {
  const calibration = Calibration.parse({ ...FLAT, kinds: KINDS });
  const scoreOf = (features: number[] | undefined) => judge([2], features, calibration).score;
  expect(scoreOf([9, 0])).toBeCloseTo(sigmoid(2), 6);
  expect(scoreOf([0, 9])).toBeCloseTo(0.4 + 0.2 * sigmoid(2), 6);
  expect(scoreOf([3, 3])).toBeCloseTo((sigmoid(2) + 0.4 + 0.2 * sigmoid(2)) / 2, 6);
  expect(scoreOf(undefined)).toBeCloseTo(sigmoid(2), 6);
  expect(Calibration.safeParse({ ...FLAT, kinds: { ...KINDS, bias: [0] } }).success).toBe(false);
});

test("features far from those of training are unlike it", () => {
  const calibration = Calibration.parse({ ...FLAT, unlike: { mean: [1, 1], deviation: [1, 2], limit: 2 } });
  const isUnlike = (features: number[] | undefined) => judge([2], features, calibration).unlike;
  expect([isUnlike([1, 1]), isUnlike([3, 1]), isUnlike([4, 1]), isUnlike([1, 7]), isUnlike(undefined)]).toEqual([
    false,
    false,
    true,
    true,
    false,
  ]);
  expect(judge([2], [99, 99], FLAT).unlike).toBe(false);
});

test("answers are those of the training scripts", () => {
  const calibration = Calibration.parse(given.calibration);
  for (const { logits, features, score, unlike } of given.cases) {
    const judged = judge(logits, features, calibration);
    expect([judged.score.toFixed(6), judged.unlike]).toEqual([score.toFixed(6), unlike]);
  }
  expect(new Set(given.cases.map(({ unlike }) => unlike)).size).toBe(2);
});
