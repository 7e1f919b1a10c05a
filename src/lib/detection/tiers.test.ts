import { expect, test } from "bun:test";
import { randomFor } from "../../../test/sweep.ts";
import { AI_NOT_PROVEN, BLANK, ensembleOf, FRAMED, tierOf, UNLIKE_TRAINING } from "./tiers.ts";

const success = (score: number, more: object = {}) => ({ score, status: "success", ...more });

/** The table of the contract, written anew: a boundary belongs to the higher tier. */
function byTheContract(score: number) {
  if (score >= 0.85) return ["ai", "ai_generated", true];
  if (score >= 0.55) return ["likely_ai", "likely_ai", true];
  if (score >= 0.45) return ["uncertain", "uncertain", null];
  if (score >= 0.15) return ["likely_real", "likely_real", false];
  return ["real", "real", false];
}

const BOUNDARIES = [0, 0.15, 0.45, 0.5, 0.55, 0.85, 1];
/** Numbers on both sides of each boundary, and some between. */
const FIXTURES = [
  ...BOUNDARIES.flatMap((at) => [at, at - 1e-9, at + 1e-9, at - 0.01, at + 0.01]),
  ...Array.from({ length: 28 }, (_, i) => i / 27),
].filter((score) => score >= 0 && score <= 1);

test("59 fixed and 10,000 random scores follow the table of the contract, whatever the models know", () => {
  expect(FIXTURES).toHaveLength(59);
  const random = Array.from({ length: 10_000 }, randomFor("scores of the contract's table"));
  const doubts = [{}, { unlike: true }, { unlike: false, ai_from: 0.93 }, { ai_from: null }, { ai_from: 0.8 }];
  for (const [i, score] of [...FIXTURES, ...random].entries()) {
    const ensemble = ensembleOf({ models: { a: success(score, doubts[i % doubts.length]) } })!;
    const { prediction, verdict, isFake, confidence } = ensemble;
    expect([prediction, verdict, isFake] as unknown[]).toEqual(byTheContract(ensemble.score));
    expect(confidence).toBe(2 * Math.abs(ensemble.score - 0.5));
    expect(ensemble.pixelScore).toBe(score);
    expect(ensemble.reason === null).toBe(ensemble.score === score);
    expect(tierOf(score)).toMatchObject({ prediction: byTheContract(score)[0] });
  }
});

test("an ensemble is the mean of the models that succeeded", () => {
  const failed = { score: null, status: "error" };
  const models = { a: success(0.2), b: failed, c: success(0.6) };
  expect(ensembleOf({ models })).toMatchObject({ succeeded: 2, total: 3 });
  expect(ensembleOf({ models })?.score).toBeCloseTo(0.4, 12);
  expect(ensembleOf({ models: { b: failed } })).toBeUndefined();
});

test("a file that all models call unlike training has a score inside uncertain", () => {
  const of = (score: number) =>
    ensembleOf({ models: { a: success(score, { unlike: true }), b: success(score, { unlike: true }) } })!;
  expect(of(0.95)).toMatchObject({ prediction: "uncertain", verdict: "uncertain", isFake: null, pixelScore: 0.95 });
  expect(of(0.95).reason).toBe(UNLIKE_TRAINING);
  expect(of(0).score).toBeLessThan(of(1).score);
  const sure = success(0.95, { unlike: true });
  expect(ensembleOf({ models: { a: sure, b: success(0.95, { unlike: false }) } })).toMatchObject({
    score: 0.95,
    reason: null,
  });
  expect(ensembleOf({ models: { a: sure, b: success(0.95) } })).toMatchObject({ prediction: "ai", reason: null });
});

test("small and blank images, bare screenshots and music have a score inside uncertain, and borders are told", () => {
  const of = (more: object) => ensembleOf({ models: { a: success(0.9) }, ...more })!;
  const image = (width: number, height: number) => ({ media: { kind: "image", width, height } });
  const music = { media: { kind: "audio" }, layout: "not_speech" };
  for (const more of [image(255, 900), image(900, 1), { layout: "blank" }, { layout: "screenshot" }, music])
    expect(of(more)).toMatchObject({
      prediction: "uncertain",
      isFake: null,
      reason: expect.stringContaining("uncertain"),
    });
  expect(of(image(256, 256))).toMatchObject({ prediction: "ai", reason: null });
  expect(of({ media: { kind: "audio" } })).toMatchObject({ prediction: "ai", reason: null });
  expect(of({ ...image(800, 600), layout: "framed" })).toMatchObject({ score: 0.9, reason: FRAMED });
});

test("no score reaches the tier ai where it is not proven", () => {
  const at = (score: number, from: number | null) => ensembleOf({ models: { a: success(score, { ai_from: from }) } });
  expect(at(0.92, 0.9)).toMatchObject({ prediction: "ai", score: 0.92, reason: null });
  expect(at(0.88, 0.9)).toMatchObject({ prediction: "likely_ai", isFake: true, score: 0.8499, reason: AI_NOT_PROVEN });
  expect(at(0.98, null)).toMatchObject({ prediction: "likely_ai", reason: AI_NOT_PROVEN });
  expect(at(0.8, null)).toMatchObject({ score: 0.8, reason: null });
});

test("the share of generated files in the traffic moves a score by its log-odds", () => {
  const at = (score: number, prior?: number, more: object = {}) =>
    ensembleOf({ models: { a: success(score) }, ...more }, prior)!;
  const logit = (score: number) => Math.log(score / (1 - score));
  for (const score of [0.01, 0.2, 0.5, 0.7, 0.99])
    for (const prior of [0.001, 0.1, 0.4, 0.9, 0.999])
      expect(logit(at(score, prior).score)).toBeCloseTo(logit(score) + logit(prior), 9);
  expect(at(0.7, 0.1)).toMatchObject({
    prediction: "likely_real",
    pixelScore: 0.7,
    reason: "The account says that 10 % of its files are generated, so the score is lower",
  });
  expect(at(0.7, 0.9)).toMatchObject({ prediction: "ai", reason: expect.stringContaining("90 %") });
  expect(at(0.7, 0.5)).toEqual(at(0.7));
  for (const score of [0, 1]) expect(at(score, 0.1).score).toBe(score);
});

test("a prior neither decides an image of which nothing can be said nor outweighs a declaration", () => {
  const models = { a: success(0.5) };
  expect(ensembleOf({ models, layout: "blank" }, 0.999)).toMatchObject({ prediction: "uncertain", reason: BLANK });
  const signals = {
    c2pa: null,
    metadata: { camera: null, generator: null },
    watermark: { generator: "FLUX" },
  };
  expect(ensembleOf({ models, signals }, 0.001)).toMatchObject({ score: 0.95, declared: "watermark" });
  const unproven = { a: success(0.8, { ai_from: null }) };
  expect(ensembleOf({ models: unproven }, 0.9)).toMatchObject({ score: 0.8499, reason: AI_NOT_PROVEN });
});
