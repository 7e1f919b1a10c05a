/** An image of one colour with thin pairs of lines, which keep its mean: an image of one colour alone counts as blank. */
import sharp from "sharp";

type Colour = { r: number; g: number; b: number };
const APART = 64;
const LINE = 24;

export function drawn(width: number, height: number, { r, g, b }: Colour) {
  const pixels = new Uint8ClampedArray(width * height * 3);
  for (let i = 0; i < width * height; i++) {
    const x = (i % width) % APART;
    const change = x === 20 ? LINE : x === 21 ? -LINE : 0;
    pixels.set([r + change, g + change, b + change], i * 3);
  }
  return sharp(pixels, { raw: { width, height, channels: 3 } });
}
