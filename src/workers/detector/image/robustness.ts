/** Scores an image again after re-encoding and resizing, as happens when images are shared. */

import { decodeFrame, type Image, type Pixels, rawPixels, type SharpLibrary } from "./decode.ts";
import { type Area, cutOut } from "./layout.ts";

/** Only the middle of a larger image is used, so that five views cost as much as five ordinary images. */
const MAX_SIDE = 2_048;

type Sharp = ReturnType<SharpLibrary>;
type View = { view: string; make: (sharp: SharpLibrary, original: Sharp, side: Sides) => Promise<Pixels> };
type Sides = { width: number; height: number };

const saved = (view: string, encode: (image: Sharp) => Sharp): View => ({
  view,
  async make(sharp, original) {
    return await rawPixels(sharp(await encode(original).toBuffer()), view);
  },
});
const scaled = (view: string, factor: number): View => ({
  view,
  make: (_sharp, original, { width, height }) =>
    rawPixels(
      original.resize(Math.max(1, Math.round(width * factor)), Math.max(1, Math.round(height * factor)), {
        fit: "fill",
        kernel: "cubic",
      }),
      view,
    ),
});

export const VIEWS: readonly View[] = [
  saved("jpeg_80", (image) => image.jpeg({ quality: 80 })),
  saved("jpeg_60", (image) => image.jpeg({ quality: 60 })),
  saved("webp_70", (image) => image.webp({ quality: 70, effort: 0 })),
  scaled("scale_0.75", 0.75),
  scaled("scale_0.5", 0.5),
];

/** Yields the image itself, or the picture inside its borders, then its views, one at a time. */
export async function* viewsOf(image: Image, inner?: Area): AsyncGenerator<{ view: string; seen: Pixels }> {
  const { sharp } = image;
  const decoded = await decodeFrame(image, 0);
  const whole = inner ? cutOut(decoded, inner) : decoded;
  const [width, height] = [Math.min(whole.width, MAX_SIDE), Math.min(whole.height, MAX_SIDE)];
  const [left, top] = [Math.floor((whole.width - width) / 2), Math.floor((whole.height - height) / 2)];
  const open = ({ pixels, ...size }: Pixels) => sharp(pixels, { raw: { ...size, channels: 3 } });
  const isWhole = width === whole.width && height === whole.height;
  const original = isWhole ? whole : await rawPixels(open(whole).extract({ left, top, width, height }), "middle");
  yield { view: "original", seen: original };
  for (const { view, make } of VIEWS) yield { view, seen: await make(sharp, open(original), { width, height }) };
}
