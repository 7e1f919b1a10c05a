/** One request: bytes in, scores and signals out. What signals mean for the score is decided by `src/lib/detection`. */

import { sniff } from "../../lib/detection/sniff.ts";
import { ensembleOf } from "../../lib/detection/tiers.ts";
import type { Evidence, Heatmap, ModelName, Scored, Signals } from "../protocol_detector.ts";
import { EQUALISED_VIEW, evidenceOf } from "./adapted/evidence.ts";
import { bytesHeld, decodeFrame, type Image, type Pixels, readHeader, sampleFrames } from "./image/decode.ts";
import { drawHeatmap, planHeatmap } from "./image/heatmap.ts";
import { type Area, cutOut, type Framing, layoutOf } from "./image/layout.ts";
import { viewsOf } from "./image/robustness.ts";
import { CROP, type Crop, cutCrop, MAX_CROPS, planCrops } from "./image/views.ts";
import { smallPicture } from "./image/whole.ts";
import { type Results, WHOLE } from "./messages.ts";
import { readCredentials } from "./origin/c2pa.ts";
import { readOrigin } from "./origin/metadata.ts";
import { findWatermark, type Watermark } from "./origin/watermark.ts";
import { Refusal } from "./refusal.ts";
import { cropScore, cropScores, judge, type ModelResults } from "./results.ts";
import type { World } from "./world.ts";

export type ScoreOptions = {
  models: readonly ModelName[];
  robustness: boolean;
  heatmap: boolean;
  features: boolean;
  signal: AbortSignal;
};

const CROP_BYTES = CROP * CROP * 3;
const LARGE_PIXELS = 16e6;
const NOTHING_WRITTEN = { software: null, camera: null, generator: null };

/** The server names only models that fit the kind of file. */
export async function score(world: World, bytes: Uint8Array<ArrayBuffer>, options: ScoreOptions): Promise<Scored> {
  const sniffed = sniff(bytes);
  if (!sniffed)
    throw new Refusal(
      "UNSUPPORTED_FORMAT",
      "The format is not supported. Send JPEG, PNG, WebP or GIF, or for audio WAV, FLAC or MP3",
    );
  return sniffed.kind === "image" ? await scoreImage(world, bytes, options) : await scoreAudio(world, bytes, options);
}

async function scoreImage(world: World, bytes: Uint8Array, options: ScoreOptions): Promise<Scored> {
  const { sharp, limits } = world;
  const header = await readHeader(sharp, bytes, limits);
  const { format, width, height, frames, metadata } = header;
  const image: Image = { sharp, bytes, header, limits };
  const leave = await world.gate.enter(memoryOf(image, options), options.signal);
  try {
    const seen: Results[] = [];
    let watermark: Watermark | null = null;
    let framing: Framing = { layout: "plain" };
    for (const frame of sampleFrames(header)) {
      let pixels = await decodeFrame(image, frame);
      if (frame === 0) framing = layoutOf(pixels, { isPhoto: format === "jpeg" || metadata.exif !== undefined });
      // The frames of an animation may have other borders, so they are scored whole.
      if (framing.inner && frames === 1) pixels = cutOut(pixels, framing.inner);
      const scores = scorePixels(world, pixels, options);
      watermark ??= findWatermark(pixels); // while the networks run in their threads
      seen.push(await scores);
    }
    const inner = frames === 1 ? framing.inner : undefined;
    const crops = cropScores(world.models, seen, planCrops(inner?.width ?? width, inner?.height ?? height));
    return {
      media: { kind: "image", format, width, height, frames },
      models: judge(world.models, options.models, seen),
      versions: versionsOf(world, options.models),
      signals: {
        c2pa: readCredentials(bytes, format, { certificates: world.trusted, nowMs: Date.now() }),
        metadata: readOrigin({ exif: metadata.exif, xmp: metadata.xmp?.toString("utf8"), comments: metadata.comments }),
        watermark,
        robustness: options.robustness ? await testRobustness(world, image, options, inner) : null,
      },
      crops: crops.map(({ x, y, score }) => ({ x: x + (inner?.x ?? 0), y: y + (inner?.y ?? 0), score })),
      layout: frames === 1 || framing.layout !== "framed" ? framing.layout : "plain",
      ...(options.heatmap ? { heatmap: await makeHeatmap(world, await decodeFrame(image, 0), options) } : {}),
      ...(options.features ? { evidence: await collectEvidence(world, image, options) } : {}),
    };
  } finally {
    if (width * height > LARGE_PIXELS) Bun.gc(true); // before the next one is let in, not some time after
    leave();
  }
}

/** The pixels that views and the heat map are made from are held beside theirs. */
function memoryOf(
  { header: { width, height, metadata } }: Image,
  { robustness, heatmap, features }: ScoreOptions,
): number {
  return bytesHeld(metadata) + (robustness || heatmap || features ? width * height * 3 : 0);
}

async function collectEvidence(world: World, image: Image, options: ScoreOptions): Promise<Evidence> {
  const views: { view: string; results: Results }[] = [];
  for await (const { view, seen } of viewsOf(image)) {
    views.push({ view, results: await scorePixels(world, seen, options) });
    if (view === EQUALISED_VIEW) break;
  }
  return evidenceOf(world.models, views);
}

/** The squares are scored a few at a time, so that other requests get their turn. */
async function makeHeatmap(world: World, image: Pixels, options: ScoreOptions): Promise<Heatmap> {
  const grid = planHeatmap(image.width, image.height);
  const scores: (number | null)[] = [];
  for (let at = 0; at < grid.squares.length; at += MAX_CROPS) {
    const some = grid.squares.slice(at, at + MAX_CROPS);
    const seen = await scoreCrops(world, image, some, options);
    scores.push(...some.map((_, i) => cropScore(world.models, seen, i) ?? null));
  }
  return await drawHeatmap(world.sharp, image, grid, scores);
}

/** The crops and the whole image. Their runs are spread over idle lanes. */
async function scorePixels(world: World, image: Pixels, options: ScoreOptions): Promise<Results> {
  const crops = scoreCrops(world, image, planCrops(image.width, image.height), options);
  const usesWhole = options.models.some((name) => world.models.found.get(name)?.calibration.whole);
  const [byCrops, byWhole] = await Promise.all([crops, usesWhole ? scoreWhole(world, image, options) : {}]);
  return { ...byCrops, ...byWhole };
}

async function scoreWhole({ lanes }: World, image: Pixels, { signal }: ScoreOptions): Promise<Results> {
  const input = await smallPicture(image, signal);
  return await lanes.score({ models: [WHOLE], input, count: 1 }, signal);
}

async function scoreCrops(
  { lanes, models }: World,
  image: Pixels,
  crops: readonly Crop[],
  options: ScoreOptions,
): Promise<Results> {
  const available = options.models.filter((name) => models.found.has(name));
  if (available.length === 0) return {};
  const input = lanes.room(crops.length);
  for (const [i, crop] of crops.entries()) cutCrop(image, crop, input, i * CROP_BYTES);
  return await lanes.score({ models: available, input, count: crops.length }, options.signal);
}

async function testRobustness(
  world: World,
  image: Image,
  options: ScoreOptions,
  inner: Area | undefined,
): Promise<Signals["robustness"]> {
  const views: { view: string; score: number }[] = [];
  for await (const { view, seen } of viewsOf(image, inner)) {
    const models = judge(world.models, options.models, [await scorePixels(world, seen, options)]);
    const ensemble = ensembleOf({ models });
    if (!ensemble) return null;
    views.push({ view, score: ensemble.score });
  }
  const scores = views.map(({ score }) => score);
  const [lowest, highest] = [Math.min(...scores), Math.max(...scores)];
  return { lowest, highest, views, flips: lowest < 0.5 && highest >= 0.5 };
}

async function scoreAudio(world: World, bytes: Uint8Array<ArrayBuffer>, options: ScoreOptions): Promise<Scored> {
  const { lanes, models } = world;
  const { windows, count, format, seconds, sampleRate, channels, isSpeech } = await lanes.readAudio(
    bytes,
    options.signal,
  );
  const available = options.models.filter((name) => models.found.has(name));
  const heard =
    available.length > 0 ? await lanes.score({ models: available, input: windows, count }, options.signal) : {};
  const results: ModelResults = judge(models, options.models, [heard]);
  return {
    media: { kind: "audio", format, seconds, sample_rate: sampleRate, channels },
    models: results,
    versions: versionsOf(world, options.models),
    signals: { c2pa: null, metadata: NOTHING_WRITTEN, robustness: null },
    layout: isSpeech ? "plain" : "not_speech",
    ...(options.features ? { evidence: evidenceOf(models, [{ view: "original", results: heard }]) } : {}),
  };
}

function versionsOf({ models }: World, available: readonly ModelName[]): Scored["versions"] {
  const versions = available.flatMap((name) => {
    const version = models.found.get(name)?.calibration.version;
    return version === undefined ? [] : [[name, version]];
  });
  return Object.fromEntries(versions) as Scored["versions"];
}
