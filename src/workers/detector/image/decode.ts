/**
 * Decodes an image to the pixels that the detectors were trained on: 8-bit sRGB, upright, on grey where it is
 * transparent. Nothing is resized. The header is checked before anything is decoded.
 */

import type { Metadata, Sharp, SharpOptions } from "sharp";
import { type ImageFormat, sniff } from "../../../lib/detection/sniff.ts";
import { errorText } from "../../../lib/error_text.ts";
import type { loadSharp } from "../../../native/sharp.ts";
import { Refusal } from "../refusal.ts";

export type SharpLibrary = Awaited<ReturnType<typeof loadSharp>>;
/** Tightly packed RGB. */
export type Pixels = { pixels: Uint8Array; width: number; height: number };
export type Header = {
  format: ImageFormat;
  /** Width in upright orientation. */
  width: number;
  height: number;
  frames: number;
  metadata: Metadata;
};
export type Limits = { maxPixels: number; seconds: number };
export type Image = { sharp: SharpLibrary; bytes: Uint8Array; header: Header; limits: Limits };

const GREY = { r: 128, g: 128, b: 128 };
const MAX_FRAMES = 5;
/** Limit for an image of maximum size: a progressive JPEG in three colours needs this much. */
const MAX_BYTES_PER_PIXEL = 9;
const OUT_BYTES_PER_PIXEL = 3;
/** In pixels. Formats other than PNG have a similar limit, and a decoder holds whole rows, even of a flat image. */
const MAX_SIDE = 65_535;
/** Measured number of rows that libvips keeps while it reads from top to bottom. The pipeline's own rows are added. */
const KEPT_ROWS = 512;
const PIPELINE_ROWS = 16;
/** A frame of an animation depends on earlier frames: limit of the pixels decoded to reach the last one. */
const MAX_WALKED_PIXELS = 400e6;
const SIDEWAYS = 5; // EXIF orientations from this one on swap the sides

export const optionsOf = (limits: Limits, page: number): SharpOptions => ({
  failOn: "error",
  sequentialRead: true,
  limitInputPixels: limits.maxPixels,
  page,
  pages: 1,
});

export async function readHeader(sharp: SharpLibrary, bytes: Uint8Array, limits: Limits): Promise<Header> {
  const sniffed = sniff(bytes);
  if (sniffed?.kind !== "image")
    throw new Refusal(
      "UNSUPPORTED_FORMAT",
      "The file is not a JPEG, PNG, WebP or GIF image. Send one of these formats",
    );
  // libvips limits the pixels of one page. Without its limit this code can read the header and write its own error.
  const metadata = await told(sharp(bytes, { ...optionsOf(limits, 0), limitInputPixels: false }).metadata(), "header");
  const { width, height, orientation = 1 } = metadata;
  if (metadata.format !== sniffed.format)
    throw new Refusal(
      "INVALID_IMAGE",
      `The file begins like ${sniffed.format}, but its content is ${metadata.format ?? "unknown"}`,
    );
  if (!(width > 0 && height > 0)) throw new Refusal("INVALID_IMAGE", "The image has no pixels");
  if (width * height > limits.maxPixels) {
    const size = `${width} × ${height} pixels`;
    const most = `${Math.floor(limits.maxPixels / 1e6)} megapixels`;
    throw new Refusal("IMAGE_TOO_LARGE", `${size} are more than the maximum of ${most}. Send a smaller image`);
  }
  if (Math.max(width, height) > MAX_SIDE)
    throw new Refusal(
      "IMAGE_TOO_LARGE",
      `${width} × ${height} pixels: a side may have at most ${MAX_SIDE} pixels. Send a smaller image`,
    );
  const pixelBytes = width * height * bytesPerPixel(metadata);
  if (pixelBytes > mostPixelBytes(limits) || bytesHeld(metadata) > mostBytesHeld(limits))
    throw new Refusal(
      "IMAGE_TOO_LARGE",
      `${width} × ${height} pixels need too much memory in this encoding. Send a smaller image, or one that` +
        "is not progressive, interlaced or rotated",
    );
  const upright = orientation >= SIDEWAYS ? { width: height, height: width } : { width, height };
  return { format: sniffed.format, ...upright, frames: Math.max(1, metadata.pages ?? 1), metadata };
}

const mostPixelBytes = ({ maxPixels }: Pick<Limits, "maxPixels">) => maxPixels * MAX_BYTES_PER_PIXEL;

/** Room for any image of `maxPixels` with three bytes per pixel, of any width. */
export const mostBytesHeld = (limits: Pick<Limits, "maxPixels">) =>
  mostPixelBytes(limits) +
  OUT_BYTES_PER_PIXEL * (Math.min(limits.maxPixels, MAX_SIDE * KEPT_ROWS) + MAX_SIDE * PIPELINE_ROWS);

type Stored = Pick<Metadata, "format" | "channels" | "width" | "height"> & Partial<Metadata>;

/** Returns the memory that decoding an image takes: its pixels, and the rows inside the decoder. */
export function bytesHeld(metadata: Stored): number {
  const { width, height } = metadata;
  const rows = Math.min(height, KEPT_ROWS) + PIPELINE_ROWS;
  return width * height * bytesPerPixel(metadata) + width * rows * storedBytes(metadata);
}

const storedBytes = ({ channels, depth }: Pick<Metadata, "channels"> & Partial<Metadata>) =>
  channels * (depth === "ushort" ? 2 : 1);

/** Returns the memory of one pixel while decoding: the output, and what is held of the whole image until then. */
export function bytesPerPixel(metadata: Pick<Metadata, "format" | "channels"> & Partial<Metadata>): number {
  const { format, channels, isProgressive, orientation = 1, pages = 1 } = metadata;
  const stored = storedBytes(metadata);
  const canvas = format === "gif" || format === "webp" ? 4 * (pages > 1 ? 2 : 1) : 0;
  const passes = !isProgressive ? 0 : format === "jpeg" ? channels * 2 : stored; // coefficients have 16 bits
  return OUT_BYTES_PER_PIXEL + canvas + passes + (orientation > 1 ? stored : 0);
}

/** Chooses the frames of an animation to score: at most five, spread over the reachable part. */
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
  const source = (c: number) => (channels < 3 ? 0 : c); // grey fills all three channels
  for (let i = 0; i < width * height; i++)
    for (let c = 0; c < 3; c++) pixels[i * 3 + c] = data[i * channels + source(c)]!;
  return { pixels, width, height };
}

/** Runs a decoder and turns its failure into a one-line Refusal. */
async function told<T>(work: Promise<T>, what: string): Promise<T> {
  try {
    return await work;
  } catch (cause) {
    const reason = errorText(cause).split("\n")[0]!.slice(0, 200);
    throw new Refusal("INVALID_IMAGE", `The image's ${what} cannot be decoded: ${reason}`, { cause });
  }
}
