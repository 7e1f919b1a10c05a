// tier: all (networks of the detectors)
/** The detectors inside the executable say what they said after training. */
import { afterAll, beforeAll, expect, test } from "bun:test";
import { join } from "node:path";
import sharp from "sharp";
import cases from "../../models/detector/cases/score.json";
import { Detector } from "./detector.ts";

const detector = new Detector();
beforeAll(() => void detector.open(), 60_000);
afterAll(() => detector.close());

type Made = { width: number; height: number; step: number; grain: number };

/** The same pixels as `made` in models/detector/cases/score.py. */
function pixelsOf({ width, height, step, grain }: Made): Uint8Array {
  const pixels = new Uint8Array(width * height * 3);
  for (let y = 0, i = 0; y < height; y++)
    for (let x = 0; x < width; x++)
      for (let c = 0; c < 3; c++, i++) {
        const coarse = mixed(Math.floor(x / step), Math.floor(y / step), c + 1);
        pixels[i] = 40 + (coarse % 160) + (mixed(x, y, c + 9) % grain);
      }
  return pixels;
}

function mixed(x: number, y: number, c: number): number {
  const h = Math.imul(x, 73856093) ^ Math.imul(y, 19349663) ^ Math.imul(c, 83492791);
  return Math.imul(h ^ (h >>> 15), 2246822519) >>> 16;
}

const saved = (file: string) => Bun.file(join(import.meta.dir, "../fixtures/images", file)).bytes();

async function bytesOf(at: (typeof cases)[number]): Promise<Uint8Array> {
  if ("file" in at) return await saved(at.file as string);
  const { width, height } = at as Made;
  return await sharp(pixelsOf(at as Made), { raw: { width, height, channels: 3 } })
    .png()
    .toBuffer();
}

test("every image of the cases scores as in training, in both detectors", async () => {
  for (const at of cases) {
    const { scored } = await detector.score(await bytesOf(at));
    for (const [name, expected] of Object.entries(at.scores)) {
      const score = scored?.models[name as "detector_v0" | "detector_v1"]?.score;
      if (Math.abs((score ?? Number.NaN) - expected) < 0.01) continue;
      throw new Error(`${name} says ${score} and not ${expected} of ${JSON.stringify(at)}`);
    }
  }
  expect(new Set(cases.map(({ scores }) => scores.detector_v0)).size).toBeGreaterThan(5);
});

test("both detectors call noise unlike everything they know, and no image of the cases", async () => {
  const unlike = async (bytes: Uint8Array) =>
    Object.values((await detector.score(bytes)).scored?.models ?? {}).map((model) => model?.unlike);
  const [width, height] = [640, 480];
  const noise = Uint8Array.from({ length: width * height * 3 }, (_, i) => mixed(i, 7, 3) & 255);
  expect(
    await unlike(
      await sharp(noise, { raw: { width, height, channels: 3 } })
        .png()
        .toBuffer(),
    ),
  ).toEqual([true, true]);
  for (const { file } of cases.filter((at) => "file" in at) as { file: string }[])
    expect(await unlike(await saved(file)), file).toContain(false);
});
