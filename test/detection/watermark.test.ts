// tier: all (embeds and encodes many pictures)
/** Watermarks that were written by an implementation of our own are found, and pictures without one have none. */
import { describe, expect, test } from "bun:test";
import sharp from "sharp";
import { findWatermark } from "../../src/workers/detector/origin/watermark.ts";
import { EXCHANGED, embed, type Picture, SCHEMES } from "./watermark_kit.ts";

let state = 1;
const random = () => {
  state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
  return state / 2 ** 32;
};

/** Soft patches of colour with some grain: what a photograph has at the size of blocks. */
function picture(width: number, height: number): Picture {
  const waves = Array.from({ length: 9 }, () => ({
    x: (random() - 0.5) / 40,
    y: (random() - 0.5) / 40,
    phase: random() * 7,
    strength: [10 + 25 * random(), 10 + 25 * random(), 10 + 25 * random()] as const,
  }));
  const pixels = new Uint8Array(width * height * 3);
  for (let y = 0, i = 0; y < height; y++)
    for (let x = 0; x < width; x++) {
      const sines = waves.map((wave) => Math.sin(x * wave.x + y * wave.y + wave.phase));
      for (let c = 0; c < 3; c++) {
        const sum = waves.reduce((total, wave, k) => total + sines[k]! * wave.strength[c]!, 125);
        pixels[i++] = Math.min(245, Math.max(10, Math.round(sum + 6 * random())));
      }
    }
  return { pixels, width, height };
}

async function encoded(image: Picture, chromaSubsampling: string, quality: number): Promise<Picture> {
  const raw = { width: image.width, height: image.height, channels: 3 as const };
  const jpeg = await sharp(image.pixels, { raw }).jpeg({ quality, chromaSubsampling }).toBuffer();
  return { ...image, pixels: new Uint8Array(await sharp(jpeg).raw().toBuffer()) };
}

const pictures = [picture(512, 512), picture(768, 512), picture(640, 900), picture(1024, 1024)];
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
  expect(findWatermark(embed(picture(200, 200), SCHEMES["FLUX"]!))).toBeNull();
  for (const image of [flat(0), flat(128), flat(255), of((i) => (i >> 5) & 255), of((i) => ((i / 1536) & 8) * 20)])
    expect(findWatermark(image)).toBeNull();
  for (let i = 0; i < 20; i++) expect(findWatermark(of(() => random() * 256))).toBeNull();
});
