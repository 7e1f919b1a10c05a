import { expect, test } from "bun:test";
import { evaluate, type Sample } from "./evaluation.ts";

const sample = (isAi: boolean, source: string, score: number, more: Partial<Sample> = {}): Sample => ({
  isAi,
  source,
  score,
  models: { detector_v0: score },
  views: {},
  ...more,
});

const SET = [
  sample(true, "paint", 0.9, { models: { detector_v0: 0.8, detector_v1: 1 }, views: { jpeg_60: 0.6 } }),
  sample(true, "paint", 0.5, { models: { detector_v0: 0.4, detector_v1: 0.6 }, views: { jpeg_60: 0.2 } }),
  sample(true, "draw", 0.3, { models: { detector_v0: 0.3 } }), // the other model failed on it
  sample(false, "phone", 0.1, { models: { detector_v0: 0.1, detector_v1: 0.1 }, views: { jpeg_60: 0.2 } }),
  sample(false, "film", 0.4, { models: { detector_v0: 0.7, detector_v1: 0.1 }, views: { jpeg_60: 0.3 } }),
];

test("a set has figures as a whole, of each model and of each source against the other label", () => {
  const { sources, ...all } = evaluate(SET, 0.5);
  expect(all).toMatchObject({ files: { ai: 3, real: 2 }, auroc: 5 / 6, balanced_accuracy: (2 / 3 + 1) / 2 });
  expect(all.ai_tier).toEqual({ precision: 1, precision_evened: 1, recall: 1 / 3, files: 1 });
  expect(all.models["detector_v0"]).toEqual({ auroc: 4 / 6, files: 5 });
  expect(all.models["detector_v1"]).toEqual({ auroc: 1, files: 4 });
  expect(sources.map(({ label, source, files, auroc }) => [label, source, files, auroc])).toEqual([
    ["ai", "draw", 1, 0.5],
    ["ai", "paint", 2, 1],
    ["real", "film", 1, 2 / 3],
    ["real", "phone", 1, 1],
  ]);
  expect(all.worst_source).toEqual({ label: "ai", source: "draw", auroc: 0.5 });
  expect(all.mean_over_sources).toBe((0.5 + 1 + 2 / 3 + 1) / 4);
  const paint = sources[1];
  expect([paint?.mean_score, paint?.accuracy]).toEqual([0.7, 1]);
  expect(paint?.tiers).toEqual({ ai: 1, likely_ai: 0, uncertain: 1, likely_real: 0, real: 0 });
  expect(all.calibration.map(({ from, files }) => [from, files])).toEqual([
    [0.1, 1],
    [0.3, 1],
    [0.4, 1],
    [0.5, 1],
    [0.9, 1],
  ]);
});

test("a treatment is compared with the same files untreated", () => {
  // 0.6 is above both; 0.2 ties with one and is below the other: 2.5 of 4. Untreated the four are in order.
  expect(evaluate(SET, 0.5).robustness).toEqual({ jpeg_60: { auroc: 2.5 / 4, files: 4, of_clean: 2.5 / 4 } });
});

test("one label alone has shares and no ranking", () => {
  const alone = evaluate([sample(false, "", 0.2)], 0.5);
  expect(alone).toMatchObject({ auroc: null, balanced_accuracy: null, worst_source: null, mean_over_sources: null });
  expect(alone.sources[0]).toMatchObject({ source: "", auroc: null, accuracy: 1 });
  expect(evaluate([], 0.5)).toMatchObject({ files: { ai: 0, real: 0 }, ece: null, sources: [] });
});
