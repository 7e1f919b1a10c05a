/**
 * An image's bytes → pixels as the detectors were trained on: 8-bit RGB in sRGB, upright, over grey where it is
 * transparent. Nothing is resized. What the header promises is checked before anything is decoded.
 */
import type { Metadata, Sharp, SharpOptions } from "sharp";
import { type ImageFormat, sniff } from "../../../lib/detection/sniff.ts";
import type { loadSharp } from "../../../native/sharp.ts";
import { Refusal } from "../refusal.ts";

export type SharpLibrary = Awaited<ReturnType<typeof loadSharp>>;
/** Tightly packed RGB. */
export type Pixels = { pixels: Uint8Array; width: number; height: number };
export type Header = {
  format: ImageFormat;
  /** Upright. */
  width: number;
  height: number;
  frames: number;
  metadata: Metadata;
};
export type Limits = { maxPixels: number; seconds: number };
export type Image = { sharp: SharpLibrary; bytes: Uint8Array; header: Header; limits: Limits };

const GREY = { r: 128, g: 128, b: 128 };
const MAX_FRAMES = 5;
/** Of an image that is as large as it may be: those of a progressive JPEG in three colours. */
const MAX_BYTES_PER_PIXEL = 9;
const OUT_BYTES_PER_PIXEL = 3;
/** Pixels. Formats other than PNG end near it, and a decoder holds whole rows, however few there are. */
const MAX_SIDE = 65_535;
/** Rows that libvips keeps while it reads from top to bottom, as measured; those of the pipeline come on top. */
const KEPT_ROWS = 512;
const PIPELINE_ROWS = 16;
/** A frame of an animation is made from those before it: pixels that may be gone through to get to the last one. */
const MAX_WALKED_PIXELS = 400e6;
const SIDEWAYS = 5; // EXIF orientations from here on exchange the sides

const optionsOf = (limits: Limits, page: number): SharpOptions => ({
  failOn: "error",
  sequentialRead: true,
  limitInputPixels: limits.maxPixels,
  page,
  pages: 1,
});

export async function readHeader(sharp: SharpLibrary, bytes: Uint8Array, limits: Limits): Promise<Header> {
  const sniffed = sniff(bytes);
  if (sniffed?.kind !== "image")
    throw new Refusal("UNSUPPORTED_FORMAT", "This is no JPEG, PNG, WebP or GIF image; send one of these");
  // libvips counts the pixels of one page; without a limit of its own the header can be read and judged in our words
  const metadata = await told(sharp(bytes, { ...optionsOf(limits, 0), limitInputPixels: false }).metadata(), "header");
  const { width, height, orientation = 1 } = metadata;
  if (metadata.format !== sniffed.format)
    throw new Refusal("INVALID_IMAGE", `It begins like ${sniffed.format} and is ${metadata.format ?? "nothing known"}`);
  if (!(width > 0 && height > 0)) throw new Refusal("INVALID_IMAGE", "It has no pixels");
  if (width * height > limits.maxPixels) {
    const size = `${width} × ${height} pixels`;
    const most = `${Math.floor(limits.maxPixels / 1e6)} megapixels`;
    throw new Refusal("IMAGE_TOO_LARGE", `${size} are more than the ${most} that are decoded; send a smaller image`);
  }
  if (Math.max(width, height) > MAX_SIDE)
    throw new Refusal(
      "IMAGE_TOO_LARGE",
      `${width} × ${height} pixels: a side may have ${MAX_SIDE} pixels at most; send a smaller image`,
    );
  const pixelBytes = width * height * bytesPerPixel(metadata);
  if (pixelBytes > mostPixelBytes(limits) || bytesHeld(metadata) > mostBytesHeld(limits))
    throw new Refusal(
      "IMAGE_TOO_LARGE",
      `${width} × ${height} pixels take too much memory in the way they are stored; send a smaller image, or one that ` +
        "is not progressive, interlaced or turned",
    );
  const upright = orientation >= SIDEWAYS ? { width: height, height: width } : { width, height };
  return { format: sniffed.format, ...upright, frames: Math.max(1, metadata.pages ?? 1), metadata };
}

const mostPixelBytes = ({ maxPixels }: Pick<Limits, "maxPixels">) => maxPixels * MAX_BYTES_PER_PIXEL;

/** Room for any image of `maxPixels` that is stored in three bytes a pixel, however wide it is. */
export const mostBytesHeld = (limits: Pick<Limits, "maxPixels">) =>
  mostPixelBytes(limits) +
  OUT_BYTES_PER_PIXEL * (Math.min(limits.maxPixels, MAX_SIDE * KEPT_ROWS) + MAX_SIDE * PIPELINE_ROWS);

type Stored = Pick<Metadata, "format" | "channels" | "width" | "height"> & Partial<Metadata>;

/** What an image takes while it is decoded: its pixels, and the rows on their way through the decoder. */
export function bytesHeld(metadata: Stored): number {
  const { width, height } = metadata;
  const rows = Math.min(height, KEPT_ROWS) + PIPELINE_ROWS;
  return width * height * bytesPerPixel(metadata) + width * rows * storedBytes(metadata);
}

const storedBytes = ({ channels, depth }: Pick<Metadata, "channels"> & Partial<Metadata>) =>
  channels * (depth === "ushort" ? 2 : 1);

/** What a pixel takes while it is decoded: what comes out, and what is held of the whole image until then. */
export function bytesPerPixel(metadata: Pick<Metadata, "format" | "channels"> & Partial<Metadata>): number {
  const { format, channels, isProgressive, orientation = 1, pages = 1 } = metadata;
  const stored = storedBytes(metadata);
  const canvas = format === "gif" || format === "webp" ? 4 * (pages > 1 ? 2 : 1) : 0;
  const passes = !isProgressive ? 0 : format === "jpeg" ? channels * 2 : stored; // coefficients have 16 bits
  return OUT_BYTES_PER_PIXEL + canvas + passes + (orientation > 1 ? stored : 0);
}

/** Which frames of an animation are looked at: at most five, spread over as much as can be reached. */
export function sampleFrames({ frames, width, height }: Pick<Header, "frames" | "width" | "height">): number[] {
  const reachable = Math.max(1, Math.min(frames, Math.floor(MAX_WALKED_PIXELS / (width * height))));
  const count = Math.min(MAX_FRAMES, reachable);
  return Array.from({ length: count }, (_, i) => Math.floor((i * reachable) / count));
}

export async function decodeFrame({ sharp, bytes, header, limits }: Image, page: number): Promise<Pixels> {
  const { hasAlpha, orientation = 1 } = header.metadata;
  let image = sharp(bytes, optionsOf(limits, page)).timeout({ seconds: limits.seconds });
  if (orientation > 1) image = image.autoOrient();
  if (hasAlpha) image = image.flatten({ background: GREY });
  return await rawPixels(image.toColourspace("srgb"), "pixels");
}

export async function rawPixels(image: Sharp, what: string): Promise<Pixels> {
  const { data, info } = await told(image.raw({ depth: "uchar" }).toBuffer({ resolveWithObject: true }), what);
  const { width, height, channels } = info;
  if (channels === 3) return { pixels: data, width, height };
  const pixels = new Uint8Array(width * height * 3);
  const source = (c: number) => (channels < 3 ? 0 : c); // grey is all three
  for (let i = 0; i < width * height; i++)
    for (let c = 0; c < 3; c++) pixels[i * 3 + c] = data[i * channels + source(c)]!;
  return { pixels, width, height };
}

/** What a decoder says of a broken file, in one line. */
async function told<T>(work: Promise<T>, what: string): Promise<T> {
  try {
    return await work;
  } catch (cause) {
    const reason = (cause instanceof Error ? cause.message : String(cause)).split("\n")[0]!.slice(0, 200);
    throw new Refusal("INVALID_IMAGE", `The image's ${what} cannot be decoded: ${reason}`, { cause });
  }
}
