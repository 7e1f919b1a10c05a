/**
 * The detector's worker over its socket: one image of a megapixel at a time, beside a ResNet-50 in the same runtime, and
 * eight at a time; and the small picture of a whole image alone. `VERK_MODELS`: a folder of detectors instead of those inside the executable.
 */
import { existsSync } from "node:fs";
import { join } from "node:path";
import sharp from "sharp";
import { smallPicture } from "../src/workers/detector/image/whole.ts";
import { IMAGE_MODELS, type ModelName } from "../src/workers/protocol_detector.ts";
import { Detector, type Options } from "../test/detection/detector.ts";
import { BINARY, median, ROOT, type Row } from "./tools.ts";

const SIDE = 1_000;
const TARGETS = { ms: 60, smallMs: 8 };
/**
 * Blocks of so many one after another and so many eight at a time, in turn: the speed of a machine moves in seconds.
 */
const SIZES = { full: { blocks: 12, alone: 6, together: 24 }, quick: { blocks: 3, alone: 4, together: 16 } };
const SIDE_BY_SIDE = 8;

const row = (what: string, value: string, target = "", ok: boolean | null = null): Row => ({
  bench: "detect",
  what,
  value,
  target,
  ok,
});

/** Something between a photo and noise: a JPEG that takes as long as a photo does. */
async function megapixel(): Promise<Uint8Array> {
  const pixels = Uint8Array.from({ length: SIDE * SIDE * 3 }, (_, i) => {
    const [x, y] = [Math.floor(i / 3) % SIDE, Math.floor(i / 3 / SIDE)];
    return 128 + 60 * Math.sin(x / 37 + (i % 3)) * Math.cos(y / 53) + Math.random() * 24;
  });
  return await sharp(pixels, { raw: { width: SIDE, height: SIDE, channels: 3 } })
    .jpeg({ quality: 88 })
    .toBuffer();
}

export async function run({ quick = false } = {}): Promise<Row[]> {
  const options: Options = {
    threads: navigator.hardwareConcurrency,
    ...(existsSync(BINARY) ? { program: [BINARY] } : {}),
    ...(process.env["VERK_MODELS"] ? { modelsDir: process.env["VERK_MODELS"] } : {}),
  };
  const detector = new Detector(options);
  try {
    await detector.open();
    const rows = [row("ResNet-50, random weights, 224 × 224", `${(await peer()).toFixed(1)} ms`)];
    const image = await megapixel();
    rows.push(await measureSmallPicture(image));
    for (const models of [["detector_v0"], IMAGE_MODELS] as const)
      rows.push(...(await measure(detector, image, models, SIZES[quick ? "quick" : "full"])));
    return rows;
  } finally {
    await detector.close();
  }
}

/** Made in the worker's main thread, while the crops run. */
async function measureSmallPicture(jpeg: Uint8Array): Promise<Row> {
  const { data, info } = await sharp(jpeg).raw().toBuffer({ resolveWithObject: true });
  const image = { pixels: data, width: info.width, height: info.height };
  const { signal } = new AbortController();
  const times: number[] = [];
  for (let i = 0; i < 60; i++) times.push(await timed(() => smallPicture(image, signal)));
  const ms = median(times.slice(20)); // compiled by then
  return row(
    "small picture of 1 megapixel, median",
    `${ms.toFixed(1)} ms`,
    `≤ ${TARGETS.smallMs} ms`,
    ms <= TARGETS.smallMs,
  );
}

type Sizes = (typeof SIZES)["full"];

async function measure(
  detector: Detector,
  image: Uint8Array,
  models: readonly ModelName[],
  sizes: Sizes,
): Promise<Row[]> {
  const name = models.join(" + ");
  const { scored } = await detector.score(image, { models });
  const failed = models.find((model) => scored?.models[model]?.status !== "success");
  if (failed) return [row(`1 megapixel, ${name}`, `not measured: ${scored?.models[failed]?.error}`)];
  for (let i = 0; i < 5; i++) await detector.score(image, { models });
  const [times, rates, ratios]: [number[], number[], number[]] = [[], [], []];
  for (let block = 0; block < sizes.blocks; block++) {
    const mine: number[] = [];
    for (let i = 0; i < sizes.alone; i++) mine.push(await timed(() => detector.score(image, { models })));
    const rate = (1_000 * sizes.together) / (await timed(() => together(detector, image, models, sizes)));
    times.push(...mine);
    rates.push(rate);
    ratios.push((rate * mine.reduce((a, b) => a + b)) / mine.length / 1_000);
  }
  const [alone, perSecond, ratio] = [median(times), median(rates), median(ratios)];
  const ms = `${alone.toFixed(1)} ms`;
  return [
    {
      ...row(`1 megapixel, ${name}, median`, ms, `≤ ${TARGETS.ms} ms`, alone <= TARGETS.ms),
      figure: { name: `1 megapixel, ${name}`, value: alone, unit: "ms" },
    },
    row(`the same, ${SIDE_BY_SIDE} at a time`, `${perSecond.toFixed(1)}/s`),
    // One image uses all idle cores, so several at a time gain little.
    row("over one at a time, median of blocks in turn", `${ratio.toFixed(2)}×`),
  ];
}

async function together(detector: Detector, image: Uint8Array, models: readonly ModelName[], sizes: Sizes) {
  let left = sizes.together;
  const client = async () => {
    while (left-- > 0) await detector.score(image, { models });
  };
  await Promise.all(Array.from({ length: SIDE_BY_SIDE }, client));
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const begun = performance.now();
  await work();
  return performance.now() - begun;
}

async function peer(): Promise<number> {
  const child = Bun.spawn([process.execPath, join(ROOT, "bench/peers/resnet50.ts")], {
    stderr: "inherit",
    env: { ...process.env, ORT_DISABLE_TELEMETRY: "1" },
  });
  return Number(await new Response(child.stdout).text());
}
