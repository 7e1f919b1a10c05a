import { expect, test } from "bun:test";
import { adaptedScore } from "../../../lib/detection/adaptation.ts";
import { compare, objections, shortcuts } from "./decide.ts";
import { adaptedBy, fit } from "./fit.ts";
import { crossValidate, divide, type Grouped, learn, type Sample, scoresOf, setAside } from "./learn.ts";
import { minimise } from "./minimise.ts";

/** Always the same numbers between -1 and 1. */
function numbers(seed: number) {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 31 - 1;
  };
}

const WIDTH = 6;
type SampleOptions = { files: number; told: number; sources?: number };

/** The logit says nothing; the feature 2 says `told` about the label. */
function samples({ files, told, sources = 5 }: SampleOptions): Sample[] {
  const next = numbers(7);
  return Array.from({ length: files }, (_, i) => {
    const isAi = i % 2 === 0;
    const features = Float32Array.from({ length: WIDTH }, next);
    features[2]! += isAi ? told : -told;
    const seen = { logit: next(), score: 0.5 + next() / 4, features };
    const models = new Map([["detector_v0", seen] as const]);
    const views = ["original", "jpeg_80"].map((view) => ({ view, models }));
    return { isAi, source: `${isAi ? "a" : "r"}${Math.floor(i / 2) % sources}`, hash: String(i), views };
  });
}

const HOW = { models: ["detector_v0"] as const, bases: { detector_v0: "0".repeat(64) }, bySource: true };
const VIEWS = ["original", "jpeg_80"];

test("a quadratic function is minimised", () => {
  const minimum = minimise(Float64Array.from([9, -4]), (x) => ({
    value: (x[0]! - 3) ** 2 + 10 * (x[1]! - 1) ** 2,
    gradient: Float64Array.from([2 * (x[0]! - 3), 20 * (x[1]! - 1)]),
  }));
  expect([minimum[0]!.toFixed(4), minimum[1]!.toFixed(4)]).toEqual(["3.0000", "1.0000"]);
});

test("a fit in the detector's form gives the fitted probability", () => {
  const rows = samples({ files: 60, told: 0.4 }).map(({ isAi, views }) => ({
    isAi,
    weight: 1,
    ...views[0]!.models.get("detector_v0")!,
  }));
  for (const strategy of ["recalibrate", 0.1] as const) {
    const fitted = fit(rows, strategy);
    const { logit, features } = rows[3]!;
    const moved = fitted.weight.reduce((sum, weight, i) => sum + weight * features[i]!, logit + fitted.bias);
    const wanted = 0.02 + 0.96 / (1 + Math.exp(-fitted.scale * moved));
    expect(adaptedScore({ logit, features }, adaptedBy(fitted, ""))).toBeCloseTo(wanted, 3);
  }
});

test("groups are never divided, and every part has both labels", () => {
  const files: Grouped[] = samples({ files: 200, told: 0 });
  const parts = divide(files, 4, true);
  const bySource = Map.groupBy(files.keys(), (i) => files[i]!.source);
  for (const [, members] of bySource) expect(new Set(members.map((i) => parts[i])).size).toBe(1);
  for (const part of [0, 1, 2, 3])
    expect(new Set(files.flatMap(({ isAi }, i) => (parts[i] === part ? [isAi] : []))).size).toBe(2);
  const twice = [...files, ...files];
  const byFile = divide(twice, 4, false);
  expect(byFile.slice(0, 200)).toEqual(byFile.slice(200));
});

test("evidence in the features is learned, predicted by cross-validation, and accepted", () => {
  const { learning, kept, bySource } = setAside(samples({ files: 240, told: 0.8 }));
  expect([bySource, kept.length]).toEqual([true, 48]);
  const learned = learn(learning, HOW);
  expect(learned.fits.detector_v0?.strategy).not.toBe("recalibrate");
  const [validated] = compare(crossValidate(learning, HOW, {}), VIEWS);
  expect(validated!.before.auroc).toBeLessThan(0.7);
  expect(validated!.after.auroc).toBeGreaterThan(0.9);
  expect(objections(compare(scoresOf(kept, {}, learned.adapted), VIEWS))).toEqual([]);
});

test("labels that nothing explains change nothing but the calibration, and a worse ranking is rejected", () => {
  const learned = learn(samples({ files: 120, told: 0 }), HOW);
  const weights = learned.adapted.detector_v0?.head;
  expect(weights === null || learned.fits.detector_v0?.strategy === 1).toBe(true);
  const worse = [0.9, 0.2, 0.8, 0.1].map((score, i) => ({ isAi: i % 2 === 0, before: [score], after: [1 - score] }));
  expect(objections(compare(worse, ["original"]))).toEqual([
    "the AUROC of the kept files (original) would go from 1.000 to 0.000",
    expect.stringContaining("the log loss of the kept files (original) would go from 0.1"),
  ]);
  const same = worse.map((each) => ({ ...each, after: each.before }));
  expect(objections(compare(same, ["original"]))).toEqual(["nothing gets better on the kept files"]);
});

test("formats and sizes that give the label away are named", () => {
  const files = Array.from({ length: 40 }, (_, i) => ({
    isAi: i % 2 === 0,
    format: i % 2 ? "jpeg" : "png",
    size: i % 7,
  }));
  expect(shortcuts(files)).toEqual([
    "100 % of the generated files are png, but 0 % of the real ones",
    "0 % of the generated files are jpeg, but 100 % of the real ones",
  ]);
  const sized = files.map((file) => ({ ...file, format: "png", size: file.isAi ? 1024 : 300 }));
  expect(shortcuts(sized)).toEqual(["size alone tells the labels apart"]);
});
