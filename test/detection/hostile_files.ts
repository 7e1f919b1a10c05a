/** Files made to do harm, and files damaged on the way. A seed gives the same files every time. */
import { join } from "node:path";
import { deflateSync } from "node:zlib";
import sharp from "sharp";
import type { ModelName } from "../../src/workers/protocol_detector.ts";
import * as evil from "./mutations.ts";
import { below, type Draw, drawFrom, pick } from "./mutations.ts";
import { wavOf } from "./sounds.ts";

export type Hostile = { name: string; bytes: Uint8Array; models: readonly ModelName[] };
type Maker = (good: Good, draw: Draw) => Uint8Array;
type Good = Record<"jpeg" | "png" | "webp" | "gif" | "cmyk" | "deep" | "profile" | "alpha" | "animated", Uint8Array> & {
  wav: Uint8Array;
  flac: Uint8Array;
  mp3: Uint8Array;
};

const IMAGE: readonly ModelName[] = ["detector_v0", "detector_v1"];

export async function goodFiles(): Promise<Good> {
  const draw = drawFrom(7);
  const pixels = Uint8Array.from({ length: 320 * 270 * 3 }, (_, i) => (i % 960) / 4 + draw() * 20);
  const image = () => sharp(pixels, { raw: { width: 320, height: 270, channels: 3 } });
  const frames = await Promise.all(
    [0.2, 0.5, 0.8, 1].map((factor) => image().resize(64, 48).linear(factor, 0).png().toBuffer()),
  );
  const good = {
    jpeg: image().jpeg({ quality: 85 }),
    png: image().resize(96, 80).png(),
    webp: image().webp({ quality: 60 }),
    gif: image().resize(120, 90).gif(),
    cmyk: image().toColourspace("cmyk").jpeg(),
    deep: image().resize(80, 60).toColourspace("rgb16").png(),
    profile: image().withIccProfile("p3").jpeg(),
    alpha: image().ensureAlpha(0.4).webp({ lossless: true }),
    animated: sharp(frames, { join: { animated: true } }).gif(),
  };
  const made = await Promise.all(
    Object.entries(good).map(async ([name, file]) => [name, Uint8Array.from(await file.toBuffer())]),
  );
  return {
    ...(Object.fromEntries(made) as Omit<Good, (typeof SOUNDS)[number]>),
    wav: wavOf({ seconds: 1, channels: 2, bits: 16 }),
    flac: await Bun.file(join(FIXTURES, "stereo_16.flac")).bytes(),
    mp3: await Bun.file(join(FIXTURES, "mono.mp3")).bytes(),
  };
}

const SOUNDS = ["wav", "flac", "mp3"] as const;
const FIXTURES = join(import.meta.dir, "../fixtures/audio");
const KINDS = ["jpeg", "png", "webp", "gif", "cmyk", "deep", "profile", "alpha", "animated"] as const;
type Kind = (typeof KINDS)[number];
const junk = (draw: Draw, length: number) => Uint8Array.from({ length }, () => below(draw, 256));
const concat = (...parts: Uint8Array[]) => Uint8Array.from(Buffer.concat(parts));
const zip = Buffer.from("PK\x03\x04\x14\0\0\0\0\0run.sh#!/bin/sh\nPK\x05\x06", "latin1");
const html = Buffer.from("<script>alert(1)</script><!-- ");

/** A TIFF directory of EXIF whose next one is itself, with counts and offsets that lie. */
function exifLoop(draw: Draw): Uint8Array {
  const tiff = Buffer.alloc(300, below(draw, 256));
  tiff.write("II*\0", 0, "latin1");
  tiff.writeUInt32LE(8, 4);
  tiff.writeUInt16LE(pick(draw, [3, 24, 0xffff]), 8);
  for (let i = 0; i < 24; i++) {
    const at = 10 + i * 12;
    tiff.writeUInt16LE(pick(draw, [0x8769, 0x0110, 0x0112, 0x0131, 0x9286, 0x8825, 0x0201]), at);
    tiff.writeUInt16LE(below(draw, 14), at + 2);
    tiff.writeUInt32LE(pick(draw, [1, 8, 300, 0x7fffffff, 0xffffffff]), at + 4);
    tiff.writeUInt32LE(pick(draw, [8, 10, 290, 0xfffffff0]), at + 8);
  }
  return concat(Buffer.from("Exif\0\0", "latin1"), tiff);
}

/** Boxes of content credentials that are deeper or longer than they can be. */
function jumbf(draw: Draw): Uint8Array {
  let box: Buffer = Buffer.concat([
    Buffer.from([0x9f]),
    Buffer.alloc(below(draw, 3_000), pick(draw, [0x9f, 0xbf, 0x5f, 0xd8])),
  ]);
  for (let i = 0, depth = below(draw, 60); i < depth; i++) {
    const head = Buffer.alloc(8);
    head.writeUInt32BE(pick(draw, [box.length + 8, 0, 1, 7, 0xffffffff]), 0);
    head.write(pick(draw, ["jumb", "jumd", "cbor", "json"]), 4, "latin1");
    box = Buffer.concat([head, box]);
  }
  return box;
}

const bomb = (width: number, height: number, depth: number): Uint8Array => {
  const head = Buffer.alloc(13);
  head.writeUInt32BE(width, 0);
  head.writeUInt32BE(height, 4);
  head.set([depth, 2, 0, 0, 0], 8);
  const rows = deflateSync(Buffer.alloc(Math.min(height * (1 + (width * 3 * depth) / 8), 64 << 20)), { level: 9 });
  const signature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);
  return concat(
    signature,
    evil.pngChunk("IHDR", head),
    evil.pngChunk("IDAT", rows),
    evil.pngChunk("IEND", Buffer.alloc(0)),
  );
};

/** 9,990 × 9,990 pixels of one colour in 38 bytes. */
const webpBomb = Buffer.from("524946461e000000574542505650384c110000002f0567c1190750bc6a15b9808188e87f0000", "hex");

/** A GIF of many frames, each the size of the screen, of a few bytes. */
function manyFrames(gif: Uint8Array, draw: Draw): Uint8Array {
  const body = gif.subarray(0, -1);
  const frame = Buffer.from([0x2c, 0, 0, 0, 0, 120, 0, 90, 0, 0, 2, 2, 0x4c, 0x01, 0]);
  return concat(body, ...Array.from({ length: 1 + below(draw, 3_000) }, () => frame), Buffer.from([0x3b]));
}

/** Each with how often it comes. */
// biome-ignore format: a table should look like one
const MAKERS: Record<string, readonly [weight: number, make: Maker]> = {
  truncated:     [14, (good, draw) => evil.truncate(good[pick(draw, KINDS)], draw)],
  flipped:       [18, (good, draw) => evil.flipBits(good[pick(draw, KINDS)], draw)],
  flipped_head:  [14, (good, draw) => evil.flipHead(good[pick(draw, KINDS)], draw)],
  filled:        [6,  (good, draw) => evil.fill(good[pick(draw, KINDS)], draw)],
  shifted:       [6,  (good, draw) => evil.shift(good[pick(draw, KINDS)], draw)],
  sides_png:     [3,  (good, draw) => evil.resizePng(good[pick<Kind>(draw, ["png", "deep"])], draw)],
  sides_jpeg:    [4,  (good, draw) => evil.resizeJpeg(good[pick<Kind>(draw, ["jpeg", "cmyk", "profile"])], draw)],
  sides_gif:     [3,  (good, draw) => evil.resizeGif(good[pick<Kind>(draw, ["gif", "animated"])], draw)],
  bomb:          [0.3, (_, draw) => bomb(pick(draw, [20_000, 9_999, 65_500]), pick(draw, [20_000, 1_000, 65_500]), pick(draw, [8, 16]))],
  webp_bomb:     [0.1, () => Uint8Array.from(webpBomb)],
  text_bomb:     [0.7, (good, draw) => evil.withPngChunk(good.png, pick(draw, ["zTXt", "iCCP"]), concat(Buffer.from("key\0\0"), deflateSync(Buffer.alloc(8 << 20, 65))))],
  exif_loop:     [5,  (good, draw) => evil.withJpegSegment(good.jpeg, 0xe1, exifLoop(draw))],
  exif_png:      [2,  (good, draw) => evil.withPngChunk(good.png, "eXIf", exifLoop(draw).subarray(6))],
  credentials:   [4,  (good, draw) => evil.withJpegSegment(good.jpeg, 0xeb, concat(Buffer.from("JP\0\x01\0\0\0\x01", "latin1"), jumbf(draw)))],
  credentials_png: [2, (good, draw) => evil.withPngChunk(good.png, "caBX", jumbf(draw))],
  profile:       [3,  (good, draw) => evil.withJpegSegment(good.jpeg, 0xe2, concat(Buffer.from("ICC_PROFILE\0\x01\x01", "latin1"), junk(draw, 600)))],
  frames:        [1.5, (good, draw) => manyFrames(good.gif, draw)],
  polyglot:      [4,  (good, draw) => concat(good[pick(draw, KINDS)], pick<Uint8Array>(draw, [zip, html, good.png, good.wav]))],
  polyglot_head: [2,  (good, draw) => concat(pick<Uint8Array>(draw, [zip, html, Buffer.from("%PDF-1.7\n"), Buffer.from("BM")]), good[pick(draw, KINDS)])],
  other_format:  [2,  (_, draw) => Buffer.from(pick(draw, ["<svg xmlns='http://www.w3.org/2000/svg' width='9e9' height='9'><image href='file:///etc/passwd'/></svg>", "II*\0\x08\0\0\0", "\0\0\0\x20ftypheic", "P6 99999 99999 255 ", "8BPS\0\x01"]), "latin1")],
  magic_only:    [4,  (good, draw) => concat(good[pick(draw, KINDS)].subarray(0, 12 + below(draw, 30)), junk(draw, below(draw, 2_000)))],
};
const TOTAL = Object.values(MAKERS).reduce((sum, [weight]) => sum + weight, 0);

function drawMaker(draw: Draw): [name: string, make: Maker] {
  let left = draw() * TOTAL;
  for (const [name, [weight, make]] of Object.entries(MAKERS)) {
    left -= weight;
    if (left < 0) return [name, make];
  }
  throw new Error("The weights do not add up");
}

/** The same file for the same seed. */
export function hostileFile(good: Good, seed: number): Hostile {
  const draw = drawFrom(seed);
  if (draw() < 0.05) {
    const [mutation, sound] = [pick(draw, Object.values(evil.MUTATIONS)), pick(draw, SOUNDS)];
    return { name: `${sound} ${seed}`, bytes: mutation(good[sound], draw), models: ["detector_audio_v0"] };
  }
  const [name, make] = drawMaker(draw);
  return { name: `${name} ${seed}`, bytes: make(good, draw), models: IMAGE };
}

export async function* hostileFiles(seed: number, count: number): AsyncGenerator<Hostile> {
  const good = await goodFiles();
  for (let i = 0; i < count; i++) yield hostileFile(good, seed + i);
}
