// tier: all (embeds and encodes many pictures)
/** Watermarks that were written by an implementation of our own are found, and pictures without one have none. */
import { describe, expect, test } from "bun:test";
import sharp from "sharp";
import { findWatermark } from "../../src/workers/detector/origin/watermark.ts";
import { EXCHANGED, embed, type Picture, random, SCHEMES, softPicture } from "./watermark_kit.ts";

async function encoded(image: Picture, chromaSubsampling: string, quality: number): Promise<Picture> {
  const raw = { width: image.width, height: image.height, channels: 3 as const };
  const jpeg = await sharp(image.pixels, { raw }).jpeg({ quality, chromaSubsampling }).toBuffer();
  return { ...image, pixels: new Uint8Array(await sharp(jpeg).raw().toBuffer()) };
}

const pictures = [softPicture(512, 512), softPicture(768, 512), softPicture(640, 900), softPicture(1024, 1024)];
const all = [...Object.entries(SCHEMES), ["Stable Diffusion XL", EXCHANGED] as const];

describe.each(all)("%s", (generator, scheme) => {
  test("is found in each picture, and in none without it", () => {
    for (const image of pictures) {
      expect(findWatermark(embed(image, scheme))?.generator).toBe(generator);
      expect(findWatermark(image)).toBeNull();
    }
  });

  test("is not found where the message has other bits", () => {
    const bits = scheme.bits.map((bit, i) => (i % 3 === 0 ? 1 - bit : bit));
    expect(findWatermark(embed(pictures[0]!, { ...scheme, bits }))).toBeNull();
  });
});

test.each(["4:4:4", "4:2:0"])(
  "it survives a JPEG of quality 90 with colours %s",
  async (colours) => {
    for (const [generator, scheme] of all)
      for (const image of [pictures[1]!, pictures[3]!])
        expect(findWatermark(await encoded(embed(image, scheme), colours, 90))?.generator).toBe(generator);
  },
  60_000,
);

test("small, flat, striped and noisy pictures have none", () => {
  const flat = (value: number, width = 512): Picture => ({
    pixels: new Uint8Array(width * 512 * 3).fill(value),
    width,
    height: 512,
  });
  const of = (paint: (i: number) => number): Picture => ({
    ...flat(0),
    pixels: flat(0).pixels.map((_, i) => paint(i)),
  });
  expect(findWatermark(embed(softPicture(200, 200), SCHEMES["FLUX"]!))).toBeNull();
  for (const image of [flat(0), flat(128), flat(255), of((i) => (i >> 5) & 255), of((i) => ((i / 1536) & 8) * 20)])
    expect(findWatermark(image)).toBeNull();
  for (let i = 0; i < 20; i++) expect(findWatermark(of(() => random() * 256))).toBeNull();
});
