import { describe, expect, test } from "bun:test";
import {
  auroc,
  balancedAccuracy,
  calibrationBins,
  calibrationError,
  evened,
  type Labelled,
  precisionFrom,
} from "./figures.ts";

const files = (ai: readonly number[], real: readonly number[]): Labelled[] => [
  ...ai.map((score) => ({ isAi: true, score })),
  ...real.map((score) => ({ isAi: false, score })),
];

describe("AUROC", () => {
  test.each<[string, number[], number[], number | null]>([
    ["is 1 when every generated file is above every real one", [0.9, 0.8], [0.1, 0.2], 1],
    ["is 0 the other way round", [0.1], [0.9, 0.8], 0],
    ["counts a tie half", [0.5], [0.5], 0.5],
    ["is a half when all say the same", [0.3, 0.3, 0.3], [0.3, 0.3], 0.5],
    // 0.9 is above both; 0.4 ties with one and is above the other; 0.1 ties with the lower: 2 + 1.5 + 0.5 of 6
    ["adds up pairs and ties", [0.9, 0.4, 0.1], [0.4, 0.1], 4 / 6],
    // of 4 × 3 pairs: 3 + 2 + 2 (0.35 is above 0.1 and 0.3) + 0
    ["does not mind the order or the mix", [0.8, 0.35, 0.35, 0.05], [0.7, 0.3, 0.1], 7 / 12],
    ["is nothing without real files", [0.5], [], null],
    ["is nothing without generated ones", [], [0.5], null],
  ])("%s", (_name, ai, real, expected) => {
    const area = auroc(files(ai, real));
    if (expected === null) expect(area).toBeNull();
    else expect(area).toBeCloseTo(expected, 12);
  });

  test("is the count of pairs, whatever the scores", () => {
    const score = (i: number) => ((i * 7919) % 23) / 23;
    const items = Array.from({ length: 120 }, (_, i) => ({ isAi: i % 3 === 0, score: score(i) }));
    const [ai, real] = [items.filter(({ isAi }) => isAi), items.filter(({ isAi }) => !isAi)];
    const pairs = ai.flatMap((a) => real.map((r) => (a.score > r.score ? 1 : a.score === r.score ? 0.5 : 0)));
    expect(auroc(items)).toBeCloseTo(pairs.reduce<number>((sum, each) => sum + each, 0) / pairs.length, 12);
  });
});

test("balanced accuracy is the mean over the labels, however many files each has", () => {
  // 1 of 2 generated ones and 3 of 4 real ones are on their side
  const items = files([0.5, 0.2], [0.1, 0.2, 0.49, 0.9]);
  expect(balancedAccuracy(items, 0.5)).toBe((0.5 + 0.75) / 2);
  expect(balancedAccuracy(items, 0.2)).toBe((1 + 0.25) / 2);
  expect(balancedAccuracy(files([0.5], []), 0.5)).toBeNull();
});

test("precision and recall are those of the files from a score on", () => {
  const items = files([0.9, 0.85, 0.3, 0.2], [0.86, 0.1]);
  expect(precisionFrom(items, 0.85)).toEqual({ precision: 2 / 3, recall: 0.5, files: 3 });
  expect(precisionFrom(items, 0.95)).toEqual({ precision: null, recall: 0, files: 0 });
});

describe("calibration", () => {
  // 0.0–0.1: said 0.05 of two, none is generated; 0.7–0.8: said 0.75 of four, two are; 0.9–1: said 1 of one, which is
  const items = files([0.7, 0.79, 1], [0.04, 0.06, 0.75, 0.76]);
  const bins = calibrationBins(items);

  test("says for each tenth what was said and what was", () => {
    expect(bins.map(({ from, to, files }) => [from, to, files])).toEqual([
      [0, 0.1, 2],
      [0.7, 0.8, 4],
      [0.9, 1, 1],
    ]);
    expect(bins.map(({ share_ai }) => share_ai)).toEqual([0, 0.5, 1]);
    for (const [i, mean] of [0.05, 0.75, 1].entries()) expect(bins[i]?.mean_score).toBeCloseTo(mean, 12);
  });

  test("the error is the mean distance of the two, by how many files it concerns", () => {
    expect(calibrationError(bins)).toBeCloseTo((2 * 0.05 + 4 * 0.25 + 1 * 0) / 7, 12);
    expect(calibrationError([])).toBeNull();
  });
});

test("evened out, both labels count alike, and only what depends on the mix changes", () => {
  // 1 generated file, 3 real ones, all called generated: a quarter is right as it lies, a half if they were as many
  const items = files([0.9], [0.9, 0.9, 0.9]);
  expect(precisionFrom(items, 0.85).precision).toBe(0.25);
  expect(precisionFrom(evened(items), 0.85).precision).toBeCloseTo(0.5, 12);
  expect(calibrationError(calibrationBins(items))).toBeCloseTo(0.65, 12);
  expect(calibrationError(calibrationBins(evened(items)))).toBeCloseTo(0.4, 12);
  expect(auroc(evened(items))).toBe(0.5);
  expect(evened(items).reduce((sum, { weight }) => sum + weight, 0)).toBeCloseTo(4, 12);
});
