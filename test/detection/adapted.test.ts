// tier: all (networks of the detectors)
/** Adaptations of a running detector, and models whose calibration reads features. */
import { afterAll, expect, test } from "bun:test";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import sharp from "sharp";
import { openDetector } from "../../src/cli/detect/detector.ts";
import { adaptedScore, packFloats } from "../../src/lib/detection/adaptation.ts";
import { sigmoid } from "../../src/lib/detection/curve.ts";
import { AI_NOT_PROVEN, UNLIKE_TRAINING } from "../../src/lib/detection/tiers.ts";
import { loadConfig } from "../../src/platform/config/config.ts";
import { sha256File } from "../../src/platform/files.ts";
import { keep, reset } from "../../src/resources/detection/adaptation.ts";
import { tempDir } from "../harness.ts";
import { drawn } from "./drawn.ts";
import { calibration, FAKES, green, wholeBrightness, writeModels } from "./fake_models.ts";

const dir = tempDir();
afterAll(() => rmSync(dir, { recursive: true, force: true }));

test("a new adaptation, one for other weights, and a reset", async () => {
  const models = writeModels(join(dir, "models"), { detector_v0: { graph: green(1 / 64, -2) } });
  const path = join(dir, "grey.png");
  const background = { r: 128, g: 128, b: 128 };
  writeFileSync(path, await drawn(256, 256, background).png().toBuffer());
  const config = loadConfig({ flags: { data_dir: dir, "detect.models_dir": models }, env: {} });
  const detector = await openDetector(config);
  const examine = async () => {
    const signal = new AbortController().signal;
    const outcome = await detector.examine(
      { path, named: true },
      { models: ["detector_v0"], robustness: false, heatmap: false, signal },
    );
    if (outcome.status !== "scored") throw new Error(JSON.stringify(outcome));
    return [outcome.ensemble.score.toFixed(3), outcome.scored.versions.detector_v0];
  };
  try {
    expect(await examine()).toEqual(["0.500", "fake-1"]);
    const base = await sha256File(join(models, "detector_v0.onnx"));
    const weight = packFloats(Float32Array.from([1 / 64, 0, 0])); // red counts too: the logit becomes 2
    const adapted = { base, head: { weight, bias: 0 }, temperature: 1, isotonic: [] };
    keep(dir, { detector_v0: adapted }, 0);
    expect(await examine()).toEqual(["0.881", "fake-1+adapted.1"]);
    keep(dir, { detector_v0: { ...adapted, base: "0".repeat(64) } }, 0);
    expect(await examine()).toEqual(["0.500", "fake-1"]);
    reset(dir);
    expect(await examine()).toEqual(["0.500", "fake-1"]);
  } finally {
    await detector.close();
  }
}, 60_000);

test("a model whose file knows its training data calls other files uncertain, and says why", async () => {
  const unlike = { mean: [128, 128, 128], deviation: [10, 10, 10], limit: 3 };
  const models = writeModels(join(dir, "gated"), {
    detector_v0: { graph: green(1 / 16, -6), calibration: { ...calibration, unlike, tiers: { ai: null } } },
    detector_v1: { ...FAKES.detector_v1, calibration: { ...calibration, unlike } },
  });
  const config = loadConfig({ flags: { data_dir: dir, "detect.models_dir": models }, env: {} });
  const detector = await openDetector(config);
  const examine = async (r: number, g: number, b: number) => {
    const path = join(dir, `${r}.png`);
    const background = { r, g, b };
    writeFileSync(path, await drawn(256, 256, background).png().toBuffer());
    const signal = new AbortController().signal;
    const options = { models: ["detector_v0"], robustness: false, heatmap: true, signal } as const;
    const outcome = await detector.examine({ path, named: true }, options);
    if (outcome.status !== "scored") throw new Error(JSON.stringify(outcome));
    return [outcome.ensemble.prediction, outcome.ensemble.reason, outcome.scored.models.detector_v0?.unlike];
  };
  try {
    expect(detector.versions).toEqual({ detector_v0: "fake-1" }); // the other has no last layer to read features from
    expect(await examine(128, 128, 128)).toEqual(["likely_ai", AI_NOT_PROVEN, false]);
    expect(await examine(255, 128, 0)).toEqual(["uncertain", UNLIKE_TRAINING, true]);
  } finally {
    await detector.close();
  }
}, 60_000);

test("a change of the last layer does what the evidence promised, also if the whole image counts", async () => {
  const whole = { crops: 0.4, whole: 1.5, bias: 0.2 };
  const own = join(dir, "whole");
  const write = (mix: typeof whole, slope: number) =>
    writeModels(
      join(own, "models"),
      { detector_v0: { graph: green(1 / 64, -2), calibration: { ...calibration, whole: mix } } },
      wholeBrightness(slope, -1),
    );
  const config = loadConfig({ flags: { data_dir: own, "detect.models_dir": write(whole, 1 / 100) }, env: {} });
  const path = join(own, "two.png");
  const right = { create: { width: 700, height: 300, channels: 3, background: { r: 20, g: 200, b: 90 } } } as const;
  const image = sharp({ ...right, create: { ...right.create, width: 900, background: { r: 170, g: 60, b: 30 } } });
  writeFileSync(
    path,
    await image
      .composite([{ input: await sharp(right).png().toBuffer(), left: 200, top: 0 }])
      .png()
      .toBuffer(),
  );
  const examine = async (features = false) => {
    const detector = await openDetector(config, { features });
    try {
      const signal = new AbortController().signal;
      const options = { models: ["detector_v0"], robustness: false, heatmap: false, signal } as const;
      const outcome = await detector.examine({ path, named: true }, options);
      if (outcome.status !== "scored") throw new Error(JSON.stringify(outcome));
      return outcome.scored;
    } finally {
      await detector.close();
    }
  };
  const { evidence, models } = await examine(true);
  const seen = evidence!.views[0]!.models.detector_v0!;
  expect([seen.score, sigmoid(seen.logit)]).toEqual([models.detector_v0!.score!, models.detector_v0!.score!]);
  const adapted = {
    base: evidence!.bases.detector_v0!,
    head: { weight: packFloats(Float32Array.from([1 / 80, -1 / 200, 1 / 50])), bias: 0.3 },
    temperature: 1.5,
    isotonic: [[0, 0.02], [1, 0.98]] as [number, number][], // biome-ignore format: a table
  };
  keep(own, { detector_v0: adapted }, 0);
  const live = await examine();
  expect(live.versions.detector_v0).toBe("fake-1+adapted.1");
  expect(live.models.detector_v0!.score).toBeCloseTo(adaptedScore(seen, adapted), 5);
  expect(live.models.detector_v0!.score).not.toBeCloseTo(adaptedScore(seen, { ...adapted, head: null }), 1);

  write(whole, 1 / 90); // another network for whole images
  expect((await examine()).versions.detector_v0).toBe("fake-1");
  write({ ...whole, crops: 0.5 }, 1 / 100); // another share of the crops
  expect((await examine()).versions.detector_v0).toBe("fake-1");
  write(whole, 1 / 100);
  expect((await examine()).versions.detector_v0).toBe("fake-1+adapted.1");
}, 60_000);

test("a hostile adaptation is refused in one line, and the detector works again after a reset", async () => {
  const own = tempDir();
  const models = writeModels(join(own, "models"), { detector_v0: { graph: green(1 / 64, -2) } });
  const config = loadConfig({ flags: { data_dir: own, "detect.models_dir": models }, env: {} });
  const base = await sha256File(join(models, "detector_v0.onnx"));
  const path = join(own, "grey.png");
  writeFileSync(
    path,
    await sharp({ create: { width: 9, height: 9, channels: 3, background: "#888" } })
      .png()
      .toBuffer(),
  );
  const signal = new AbortController().signal;
  const examine = async () => {
    const detector = await openDetector(config);
    try {
      const options = { models: ["detector_v0"] as const, robustness: false, heatmap: false, signal };
      return await detector.examine({ path, named: true }, options);
    } finally {
      await detector.close();
    }
  };
  const weights = (...values: number[]) => ({ weight: packFloats(Float32Array.from(values)), bias: 0 });
  const hostile = [
    { head: weights(Number.NaN, 0, 0) },
    { head: weights(1, 2) }, // the model has three
    { head: weights(...Array(60_000).fill(1)) },
    { temperature: 1e-300 },
  ];
  try {
    for (const change of hostile) {
      keep(own, { detector_v0: { base, head: null, temperature: 1, isotonic: [], ...change } }, 0);
      const failed = await examine().then(JSON.stringify, String);
      expect(failed).toContain("daptation");
      expect(failed).not.toContain("scored");
      reset(own);
    }
    expect(await examine()).toMatchObject({ status: "scored" });
  } finally {
    rmSync(own, { recursive: true, force: true });
  }
}, 120_000);
