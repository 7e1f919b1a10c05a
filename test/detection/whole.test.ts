// tier: all (networks of the detectors)
/** Models that also look at the whole image, with networks whose answers can be computed by hand. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import sharp, { type Sharp } from "sharp";
import { sigmoid } from "../../src/lib/detection/curve.ts";
import { tempDir, until } from "../harness.ts";
import { Detector } from "./detector.ts";
import { brightness, calibration, FAKES, wholeBrightness, writeModels } from "./fake_models.ts";

const dir = tempDir();
const MIX = { crops: 0.5, whole: 2, bias: -0.25 };
const mixed = { ...calibration, whole: MIX };
/** Both models use the whole image; their crops count differently. */
const BOTH = {
  detector_v0: { graph: brightness(1 / 32, -4), calibration: mixed },
  detector_v1: { graph: brightness(1 / 64, -2), calibration: { ...calibration, whole: { ...MIX, crops: 0.25 } } },
};
const wholeLogit = (mean: number) => 1 - mean / 128; // to it, dark is generated
const WHOLE_NETWORK = wholeBrightness(-1 / 128, 1);
const v0 = (crops: number, whole = crops) => sigmoid(0.5 * (crops / 32 - 4) + 2 * wholeLogit(whole) - 0.25);
const v1 = (crops: number, whole = crops) => sigmoid(0.25 * (crops / 64 - 2) + 2 * wholeLogit(whole) - 0.25);

const detector = new Detector({ modelsDir: writeModels(join(dir, "both"), BOTH, WHOLE_NETWORK) });
beforeAll(() => void detector.open(), 60_000);
afterAll(async () => {
  await detector.close();
  rmSync(dir, { recursive: true, force: true });
});

const flat = (grey: number, width = 300, height = 300): Sharp =>
  sharp({ create: { width, height, channels: 3, background: { r: grey, g: grey, b: grey } } });

/** One grey in the middle, where the only crop is, and another around it. */
async function framed(middle: number, around: number): Promise<Buffer> {
  const input = await flat(middle, 280, 280).png().toBuffer();
  return await flat(around, 350, 350)
    .composite([{ input, left: 35, top: 35 }])
    .png()
    .toBuffer();
}
const FRAMED_SHARE = (280 / 350) ** 2;

test("the logit is the sum of the crops' and the whole image's, which is computed once for both models", async () => {
  const before = await detector.stats();
  const { scored } = await detector.score(await framed(40, 240));
  const whole = 40 * FRAMED_SHARE + 240 * (1 - FRAMED_SHARE);
  expect(scored?.models.detector_v0?.score).toBeCloseTo(v0(40, whole), 3);
  expect(scored?.models.detector_v1?.score).toBeCloseTo(v1(40, whole), 3);
  expect(v0(40, whole)).not.toBeCloseTo(v0(40), 1);
  const { parts, runs } = await detector.stats();
  expect([parts - before.parts, runs - before.runs]).toEqual([2, 3]); // the crops on two lanes, the whole image
});

test("squares are scored by themselves: the whole image changes neither crops nor the heat map", async () => {
  const [alone, inside] = await Promise.all(
    [240, 40].map(async (around) => (await detector.score(await framed(40, around), { heatmap: true })).scored!),
  );
  const square = (crop: number) => (sigmoid(0.5 * (crop / 32 - 4) - 0.25) + sigmoid(0.25 * (crop / 64 - 2) - 0.25)) / 2;
  expect(alone!.crops!.map(({ score }) => score.toFixed(5))).toEqual([square(40).toFixed(5)]);
  expect(inside!.crops).toEqual(alone!.crops!);
  expect(inside!.models.detector_v0?.score).not.toBeCloseTo(alone!.models.detector_v0!.score!, 1);
  for (const score of inside!.heatmap!.scores) expect(score).toBeCloseTo(square(40), 5);
});

test("every frame of an animation has a whole image of its own", async () => {
  const frames = await Promise.all([90, 200, 30, 120].map((grey) => flat(grey, 60, 50).png().toBuffer()));
  const bytes = await sharp(frames, { join: { animated: true } })
    .webp({ lossless: true })
    .toBuffer();
  const before = await detector.stats();
  const { scored } = await detector.score(bytes, { models: ["detector_v1"] });
  expect(scored?.media).toMatchObject({ frames: 4 });
  expect(scored?.models.detector_v1?.score).toBeCloseTo(Math.max(v1(90), v1(200), v1(30), v1(120)), 3);
  expect(Math.max(v1(90), v1(200), v1(120))).toBeLessThan(v1(30) - 0.1);
  expect((await detector.stats()).parts - before.parts).toBe(8);
});

test("every view of the robustness check has a whole image of its own", async () => {
  const { scored } = await detector.score(await flat(100, 640, 480).png().toBuffer(), { robustness: true });
  const views = scored!.signals.robustness!.views;
  expect(views.length).toBe(6);
  for (const { score } of views) expect(score).toBeCloseTo((v0(100) + v1(100)) / 2, 2);
});

test("requests that are scored together keep their own whole images", async () => {
  const greys = Array.from({ length: 16 }, (_, i) => i * 16);
  const images = await Promise.all(greys.map((grey) => framed(128, grey)));
  const scores = async (answer: ReturnType<Detector["score"]>) => {
    const { models } = (await answer).scored!;
    return [models.detector_v0?.score, models.detector_v1?.score];
  };
  const alone: (number | null | undefined)[][] = [];
  for (const image of images) alone.push(await scores(detector.score(image)));
  expect(new Set(alone.map(([score]) => score)).size).toBe(16);
  await until("some of them to be scored together", async () => {
    const before = await detector.stats();
    expect(await Promise.all(images.map((image) => scores(detector.score(image))))).toEqual(alone);
    const after = await detector.stats();
    expect(after.parts - before.parts).toBe(32);
    return after.runs - before.runs < 32; // on a busy machine each may arrive alone
  });
}, 60_000);

describe("a model that needs the whole image", () => {
  const answersOf = async (modelsDir: string) => {
    const other = new Detector({ modelsDir, threads: 1 });
    try {
      const { scored } = await other.score(await flat(200).png().toBuffer());
      return { versions: other.versions, ...scored?.models };
    } finally {
      await other.close();
    }
  };
  const one = { detector_v0: BOTH.detector_v0, detector_v1: FAKES.detector_v1 };

  test.each<[string, (dir: string) => void, RegExp]>([
    ["is unusable if its network is missing", () => {}, /cannot be used: .*detector_whole\.onnx/],
    [
      "is unusable if its network is damaged",
      (to) => writeFileSync(join(to, "detector_whole.onnx"), "no network"),
      /cannot be used: .+/,
    ],
    [
      "is unusable if its network reads crops",
      (to) => void writeModels(to, {}, brightness(1, 0)),
      /cannot be used: .*(128|256)/s,
    ],
    [
      "is unusable if its network has another input",
      (to) => void writeModels(to, {}, wholeBrightness(1, 0, "image")),
      /cannot be used: The model has no input "pixels"/,
    ],
  ])(
    "%s, and the others go on",
    async (name, spoil, reason) => {
      const modelsDir = writeModels(join(dir, name), one);
      spoil(modelsDir);
      const { versions, detector_v0, detector_v1 } = await answersOf(modelsDir);
      expect(versions).toEqual({ detector_v1: "fake-1" });
      expect([detector_v0?.status, detector_v0?.score]).toEqual(["error", null]);
      expect(detector_v0?.error).toStartWith("detector_v0 needs detector_whole.onnx for whole images, which ");
      expect(detector_v0?.error).toMatch(reason);
      expect(detector_v1?.score).toBeCloseTo(sigmoid(200 / 64 - 2), 5);
    },
    60_000,
  );

  test("leaves a model without it alone, and a network that no model uses is not read", async () => {
    const half = await answersOf(writeModels(join(dir, "half"), one, WHOLE_NETWORK));
    expect(half.detector_v0?.score).toBeCloseTo(v0(200), 5);
    expect(half.detector_v1?.score).toBeCloseTo(sigmoid(200 / 64 - 2), 5);
    const none = writeModels(join(dir, "none"), FAKES);
    writeFileSync(join(none, "detector_whole.onnx"), "no network");
    expect((await answersOf(none)).detector_v0?.score).toBeCloseTo(sigmoid(200 / 32 - 4), 5);
  }, 60_000);
});
