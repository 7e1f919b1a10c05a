/**
 * Measures how scores change by re-encoding: each image through each codec, quality and scale, by the detector's worker. Without
 * `VERK_IMAGES` (a folder with ai/ and real/), pictures are drawn here, and only the change of the score is printed.
 */
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import sharp, { type Sharp } from "sharp";
import { auroc } from "../src/cli/detect/figures.ts";
import { ensembleOf } from "../src/lib/detection/tiers.ts";
import { IMAGE_MODELS } from "../src/workers/protocol_detector.ts";
import { Detector } from "../test/detection/detector.ts";
import { BINARY, type Row } from "./tools.ts";

type Picture = { isAi: boolean; bytes: Uint8Array };
type Change = (image: Sharp, side: { width: number; height: number }) => Sharp;

const scaled =
  (factor: number): Change =>
  (image, { width, height }) =>
    image.resize(Math.max(1, Math.round(width * factor)), Math.max(1, Math.round(height * factor))).png();
const MATRIX: Readonly<Record<string, Change>> = {
  "PNG, the pixels as they are": (image) => image.png(),
  "JPEG 90": (image) => image.jpeg({ quality: 90 }),
  "JPEG 60": (image) => image.jpeg({ quality: 60 }),
  "JPEG 60, full colours": (image) => image.jpeg({ quality: 60, chromaSubsampling: "4:4:4" }),
  "JPEG 40": (image) => image.jpeg({ quality: 40 }),
  "WebP 90": (image) => image.webp({ quality: 90 }),
  "WebP 70": (image) => image.webp({ quality: 70 }),
  "× 0.75": scaled(0.75),
  "× 0.5": scaled(0.5),
  "× 0.5, then JPEG 60": (image, side) => scaled(0.5)(image, side).jpeg({ quality: 60 }),
};
const MOST = { full: 400, quick: 6 };

export async function run({ quick = false } = {}): Promise<Row[]> {
  const pictures = await picturesOf(process.env["VERK_IMAGES"], quick ? MOST.quick : MOST.full);
  const detector = new Detector({ threads: 2, ...(existsSync(BINARY) ? { program: [BINARY] } : {}) });
  try {
    const before = await scores(detector, pictures);
    const rows = [row("as they are", before, before, pictures)];
    for (const [name, change] of Object.entries(MATRIX)) {
      const changed = await Promise.all(pictures.map((picture) => changedBy(picture, change)));
      rows.push(row(name, before, await scores(detector, changed), pictures));
    }
    return rows;
  } finally {
    await detector.close();
  }
}

async function changedBy({ isAi, bytes }: Picture, change: Change): Promise<Picture> {
  const { width = 1, height = 1 } = await sharp(bytes).metadata();
  return { isAi, bytes: await change(sharp(bytes), { width, height }).toBuffer() };
}

async function scores(detector: Detector, pictures: readonly Picture[]): Promise<number[]> {
  const found: number[] = [];
  for (const { bytes } of pictures) {
    const { scored } = await detector.score(bytes, { models: IMAGE_MODELS });
    found.push(ensembleOf(scored ?? { models: {} })?.score ?? Number.NaN);
  }
  return found;
}

function row(what: string, before: readonly number[], after: readonly number[], pictures: readonly Picture[]): Row {
  const changes = after.map((score, i) => Math.abs(score - before[i]!));
  const flips = after.filter((score, i) => score >= 0.5 !== before[i]! >= 0.5).length;
  const ranking = auroc(pictures.map(({ isAi }, i) => ({ isAi, score: after[i]! })));
  const mean = changes.reduce((sum, change) => sum + change, 0) / changes.length;
  const value = [
    ...(ranking === null ? [] : [`AUROC ${ranking.toFixed(3)}`]),
    `change ${mean.toFixed(3)}`,
    `${flips} of ${after.length} cross 0.5`,
  ].join(", ");
  return { bench: "detect_matrix", what, value, target: "", ok: null };
}

async function picturesOf(dir: string | undefined, most: number): Promise<Picture[]> {
  if (dir === undefined) return await Promise.all(Array.from({ length: Math.min(most, 24) }, (_, i) => drawn(i)));
  const labelled = (["ai", "real"] as const).map((label) =>
    readdirSync(join(dir, label), { recursive: true, encoding: "utf8" })
      .filter((name) => /\.(jpe?g|png|webp)$/i.test(name))
      .sort()
      .slice(0, most / 2)
      .map((name) => ({ isAi: label === "ai", path: join(dir, label, name) })),
  );
  return await Promise.all(
    labelled.flat().map(async ({ isAi, path }) => ({ isAi, bytes: await Bun.file(path).bytes() })),
  );
}

/** Waves with grain, from fine to coarse. */
async function drawn(seed: number): Promise<Picture> {
  const [width, height, grain] = [480, 360, 4 + 2 * seed];
  const pixels = Uint8Array.from({ length: width * height * 3 }, (_, i) => {
    const [x, y] = [Math.floor(i / 3) % width, Math.floor(i / 3 / width)];
    const noise = (Math.imul(i + seed, 2_654_435_761) >>> 16) % grain;
    return 110 + 60 * Math.sin(x / (9 + seed) + (i % 3)) * Math.cos(y / (31 - seed)) + noise;
  });
  const bytes = await sharp(pixels, { raw: { width, height, channels: 3 } })
    .png()
    .toBuffer();
  return { isAi: false, bytes };
}
