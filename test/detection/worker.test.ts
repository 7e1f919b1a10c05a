// tier: all (networks of the detectors)
/** The detector's worker with models whose answers can be computed by hand. */
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import sharp, { type Sharp } from "sharp";
import { sigmoid } from "../../src/lib/detection/curve.ts";
import { tempDir, until } from "../harness.ts";
import { Detector } from "./detector.ts";
import { brightness, calibration, FAKES, writeModels } from "./fake_models.ts";
import { wavOf } from "./sounds.ts";

const modelsDir = writeModels(join(tempDir(), "models"), FAKES);
const detector = new Detector({ modelsDir });
beforeAll(() => void detector.open(), 60_000);
afterAll(() => detector.close());

const flat = (grey: number, width = 640, height = 480): Sharp =>
  sharp({ create: { width, height, channels: 3, background: { r: grey, g: grey, b: grey } } });
const v0 = (mean: number) => sigmoid(mean / 32 - 4);
const v1 = (mean: number) => sigmoid(mean / 64 - 2);

/** The brightness that the first detector saw, computed from its score. */
async function seen(bytes: Uint8Array): Promise<number> {
  const { scored, refused } = await detector.score(bytes, { models: ["detector_v0"] });
  const score = scored?.models.detector_v0?.score;
  if (score === null || score === undefined) throw new Error(`no score: ${JSON.stringify(scored ?? refused)}`);
  return 32 * (4 + Math.log(score / (1 - score)));
}

test("both detectors score an image, and the answer describes the image", async () => {
  const { scored } = await detector.score(await flat(200).png().toBuffer());
  expect(scored?.media).toEqual({ kind: "image", format: "png", width: 640, height: 480, frames: 1 });
  expect(scored?.models.detector_v0?.score).toBeCloseTo(v0(200), 5);
  expect(scored?.models.detector_v1?.score).toBeCloseTo(v1(200), 5);
  expect(scored?.versions).toEqual({ detector_v0: "fake-1", detector_v1: "fake-1" });
  expect(scored?.signals).toEqual({
    c2pa: null,
    metadata: {
      software: null,
      camera: null,
      generator: null,
      digital_source_type: null,
      model: null,
      prompt: null,
    },
    watermark: null,
    robustness: null,
  });
});

test("a heat map scores a grid of squares, and its picture shows where the evidence is", async () => {
  const light = await flat(250, 600, 300).png().toBuffer();
  const image = flat(5, 1200, 300).composite([{ input: light, left: 600, top: 0 }]);
  const { scored } = await detector.score(await image.png().toBuffer(), { heatmap: true });
  const { columns, rows, scores, png } = scored!.heatmap!;
  expect([columns, rows]).toEqual([8, 2]);
  expect(scores[0]).toBeCloseTo((v0(5) + v1(5)) / 2, 4);
  expect(scores[7]).toBeCloseTo((v0(250) + v1(250)) / 2, 4);
  const { data, info } = await sharp(Buffer.from(png, "base64")).raw().toBuffer({ resolveWithObject: true });
  expect([info.width, info.height, info.channels]).toEqual([512, 128, 4]);
  const at = (x: number) => [...data.subarray((64 * 512 + x) * 4, (64 * 512 + x) * 4 + 4)];
  expect(at(2)[2]).toBeGreaterThan(at(2)[0]!); // blue: real
  expect(at(509)[0]).toBeGreaterThan(at(509)[2]!); // red: generated
  expect((await detector.score(light)).scored).not.toHaveProperty("heatmap");
});

describe("pixels arrive as in training", () => {
  const half = {
    create: { width: 300, height: 300, channels: 4 as const, background: { r: 255, g: 255, b: 255, alpha: 0 } },
  };
  test.each<[string, () => Promise<Buffer>, number]>([
    ["16 bits become 8", () => flat(100).toColourspace("rgb16").png().toBuffer(), 100],
    ["grey becomes three channels", () => flat(100).toColourspace("b-w").png().toBuffer(), 100],
    ["grey of 16 bits", () => flat(100).toColourspace("grey16").png().toBuffer(), 100],
    ["what is transparent lies on grey", () => sharp(half).png().toBuffer(), 128],
    ["a palette is looked up", () => flat(90).png({ palette: true }).toBuffer(), 90],
    ["WebP", () => flat(60).webp({ lossless: true }).toBuffer(), 60],
    ["a small image is reflected, not resized", () => flat(77, 40, 30).png().toBuffer(), 77],
  ])("%s", async (_name, make, mean) => expect(await seen(await make())).toBeCloseTo(mean, 1));

  test("CMYK becomes RGB", async () => {
    expect(await seen(await flat(128).toColourspace("cmyk").jpeg({ quality: 100 }).toBuffer())).toBeWithin(110, 146);
  });

  test("a colour profile is applied", async () => {
    const red = sharp({ create: { width: 300, height: 300, channels: 3, background: { r: 200, g: 80, b: 80 } } });
    const plain = await seen(await red.clone().png().toBuffer());
    const wide = await seen(await red.clone().withIccProfile("p3").png().toBuffer());
    expect(Math.abs(wide - plain)).toBeLessThan(1); // stored as other numbers, seen as the same colour
  });

  test("an image is turned upright before it is cut", async () => {
    const turned = await flat(10, 500, 300).jpeg().withMetadata({ orientation: 6 }).toBuffer();
    const { scored } = await detector.score(turned);
    expect(scored?.media).toMatchObject({ width: 300, height: 500 });
  });
});

test("an animation is as suspicious as its most suspicious frame, of five", async () => {
  const frames = await Promise.all([10, 20, 30, 200, 40, 50, 60].map((grey) => flat(grey, 60, 50).png().toBuffer()));
  for (const save of ["gif", "webp"] as const) {
    const bytes = await sharp(frames, { join: { animated: true } })
      [save]({ lossless: true } as object)
      .toBuffer();
    const { scored } = await detector.score(bytes);
    expect(scored?.media).toMatchObject({ format: save, frames: 7 });
    expect(scored?.models.detector_v0?.score).toBeGreaterThan(v0(30)); // frames 0, 1, 2, 4, 5: the bright one is not seen
    expect(scored?.models.detector_v0?.score).toBeCloseTo(v0(50), 1);
  }
});

test("robustness is the range over re-encodes, and says when the answer flips", async () => {
  const { scored } = await detector.score(await flat(200).jpeg().toBuffer(), { robustness: true });
  const found = scored?.signals.robustness;
  expect(found?.views.map(({ view }) => view)).toEqual([
    "original",
    "jpeg_80",
    "jpeg_60",
    "webp_70",
    "scale_0.75",
    "scale_0.5",
  ]);
  expect(found?.flips).toBe(false);
  expect(found?.highest).toBeCloseTo((v0(200) + v1(200)) / 2, 1);
  expect(found!.highest).toBeGreaterThanOrEqual(found!.lowest);
});

describe("a file that cannot be scored is refused with a message", () => {
  test.each<[string, () => Promise<Uint8Array>, string]>([
    ["text", async () => Buffer.from("<html><body>not an image</body></html>"), "UNSUPPORTED_FORMAT"],
    ["a TIFF", () => flat(1).tiff().toBuffer(), "UNSUPPORTED_FORMAT"],
    ["half a JPEG", async () => (await flat(1, 900, 900).jpeg().toBuffer()).subarray(0, 3_000), "INVALID_IMAGE"],
    ["a header and nothing more", async () => (await flat(1).png().toBuffer()).subarray(0, 40), "INVALID_IMAGE"],
    ["over 10 MB", async () => Buffer.alloc(10.5e6 + 1, 0xff), "IMAGE_TOO_LARGE"],
    ["an empty file", async () => new Uint8Array(0), "INVALID_IMAGE"],
  ])("%s", async (_name, make, code) => {
    const { status, refused } = await detector.score(await make());
    expect([status, refused?.code]).toEqual([422, code as never]);
  });

  test("a header with too many pixels is refused before they are decoded", async () => {
    const bomb = await flat(0, 12_000, 12_000).png({ compressionLevel: 9 }).toBuffer();
    const { refused } = await detector.score(bomb);
    expect(refused).toMatchObject({ code: "IMAGE_TOO_LARGE", error: expect.stringContaining("12000 × 12000") });
  });

  test("a model that does not exist is refused, and one that reads another medium fails alone", async () => {
    const bytes = await flat(1).png().toBuffer();
    const unknown = await detector.score(bytes, { models: ["detector_v9" as never] });
    expect(unknown.refused).toMatchObject({ code: "UNKNOWN_MODEL", error: expect.stringContaining("detector_v1") });
    const both = await detector.score(bytes, { models: ["detector_v0", "detector_audio_v0"] });
    expect(both.scored?.models.detector_audio_v0).toMatchObject({ status: "error", score: null });
    expect(both.scored?.models.detector_v0?.status).toBe("success");
  });
});

test("the largest images are refused if the decoder holds several whole copies", async () => {
  const small = new Detector({ modelsDir, threads: 1, maxPixels: 1e6 });
  const jpeg = (options: object) => flat(80, 990, 990).toColourspace("cmyk").jpeg(options).toBuffer();
  try {
    expect((await small.score(await jpeg({}))).status).toBe(200);
    const { refused } = await small.score(await jpeg({ progressive: true }));
    expect(refused).toMatchObject({ code: "IMAGE_TOO_LARGE", error: expect.stringContaining("progressive") });
  } finally {
    await small.close();
  }
});

test("a clip is scored in windows, by the detector for audio", async () => {
  const bytes = wavOf({ seconds: 10, channels: 2, bits: 16, rate: 44_100 });
  const { scored } = await detector.score(bytes, { models: ["detector_audio_v0", "detector_v0"] });
  expect(scored?.media).toEqual({ kind: "audio", format: "wav", seconds: 10, sample_rate: 44_100, channels: 2 });
  expect(scored?.models.detector_audio_v0?.score).toBeWithin(sigmoid(20 * 0.18 - 4), sigmoid(20 * 0.24 - 4));
  expect(scored?.layout).toBe("not_speech"); // a tone
  expect(scored?.models.detector_v0).toMatchObject({ status: "error", score: null });
  const broken = await detector.score(bytes.slice(0, 60), { models: ["detector_audio_v0"] });
  expect(broken.refused?.code).toBe("INVALID_IMAGE");
});

test("simultaneous requests are scored together, each with its own answer", async () => {
  const images = await Promise.all(
    Array.from({ length: 16 }, (_, i) =>
      flat(i * 12, 300, 300)
        .png()
        .toBuffer(),
    ),
  );
  await until("some of them to be scored together", async () => {
    const before = await detector.stats();
    const answers = await Promise.all(images.map((image) => detector.score(image)));
    const after = await detector.stats();
    for (const [i, { scored }] of answers.entries())
      expect(scored?.models.detector_v0?.score).toBeCloseTo(v0(i * 12), 5);
    expect(after.parts - before.parts).toBe(16);
    return after.runs - before.runs < 16; // on a busy machine each may arrive alone
  });
});

test("a client that leaves is dropped: nothing waits, and no pixel is held", async () => {
  const image = await sharp({ create: { width: 4_000, height: 3_000, channels: 3, background: "#888" } })
    .jpeg()
    .toBuffer();
  const caller = new AbortController();
  const pending = Array.from({ length: 12 }, () =>
    detector.score(image, { signal: caller.signal }).catch(() => "gone"),
  );
  caller.abort();
  expect(new Set(await Promise.all(pending))).toEqual(new Set(["gone"]));
  await until("everything to be given back", async () => {
    const { waiting, held_bytes } = await detector.stats();
    return waiting === 0 && held_bytes === 0;
  });
});

test("after a crash the next request gets another worker", async () => {
  const before = detector.starts;
  process.kill((await detector.open()).pid, "SIGSEGV");
  await until("the end to be told", () => detector.exits.length > 0);
  expect(detector.exits.at(-1)).toContain("died of SIGSEGV");
  expect((await detector.score(await flat(200).png().toBuffer())).status).toBe(200);
  expect(detector.starts).toBe(before + 1);
});

test("a model that does not load, cannot run or has a damaged calibration fails alone", async () => {
  const dir = writeModels(join(tempDir(), "models"), {
    detector_v0: { weights: Buffer.from("no model") },
    detector_v1: FAKES.detector_v1,
    detector_audio_v0: { graph: FAKES.detector_audio_v0.graph, calibration: { ...calibration, temperature: -1 } },
  });
  const other = new Detector({ modelsDir: dir, threads: 1 });
  try {
    const { scored } = await other.score(await flat(200).png().toBuffer());
    expect(other.versions).toEqual({ detector_v1: "fake-1" });
    expect(scored?.models.detector_v0).toMatchObject({ status: "error", score: null, error: expect.any(String) });
    expect(scored?.models.detector_v1?.score).toBeCloseTo(v1(200), 5);
  } finally {
    await other.close();
  }
});

test("a model with inputs other than ours is refused", async () => {
  const dir = writeModels(join(tempDir(), "models"), { detector_v0: { graph: brightness(1, 0, "image") } });
  const other = new Detector({ modelsDir: dir, threads: 1 });
  try {
    const { scored } = await other.score(await flat(200).png().toBuffer());
    expect(scored?.models.detector_v0?.error).toContain('no input "pixels"');
    expect(scored?.models.detector_v1?.error).toBeTruthy();
  } finally {
    await other.close();
  }
});

test("nothing is written but the socket", () => {
  const files = readdirSync(detector.dir, { recursive: true }).map(String);
  const isOurs = (file: string) => !file.includes("/.bun"); // where the runtime keeps what it has compiled
  const isPlace = (file: string) => /^run(\/given)?(\/wrk_\w+(\/s)?)?$/.test(file);
  expect(files.filter((file) => isOurs(file) && !isPlace(file))).toEqual([]);
});
