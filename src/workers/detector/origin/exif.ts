/** The EXIF fields about the origin of an image. Offsets are untrusted: directories may loop or lie. */

import { hasText } from "../../../lib/detection/sniff.ts";
import { viewOf } from "../containers.ts";

export type Exif = Partial<Record<"make" | "model" | "software" | "description" | "artist" | "comment", string>>;

// biome-ignore format: a table should look like one
const FIELDS: Record<number, keyof Exif> = {
  270: "description", 271: "make", 272: "model", 305: "software", 315: "artist", 37510: "comment",
};
const EXIF_DIRECTORY = 0x8769;
const TYPE_BYTES: Record<number, number> = { 1: 1, 2: 1, 3: 2, 4: 4, 7: 1 };
const MAX_DIRECTORIES = 8;
const MAX_ENTRIES = 1_000;
const MAX_TEXT_BYTES = 64 << 10;

export function readExif(bytes: Uint8Array): Exif {
  const tiff = hasText(bytes, 0, "Exif\0\0") ? bytes.subarray(6) : bytes;
  if (tiff.length < 8) return {};
  const little = hasText(tiff, 0, "II");
  if (!little && !hasText(tiff, 0, "MM")) return {};
  const view = viewOf(tiff);
  const exif: Exif = {};
  const pending = [view.getUint32(4, little)];
  const seen = new Set<number>();
  for (let at = pending.pop(); at !== undefined; at = pending.pop()) {
    if (seen.has(at) || seen.size >= MAX_DIRECTORIES || at + 2 > tiff.length) continue;
    seen.add(at);
    const count = Math.min(view.getUint16(at, little), MAX_ENTRIES);
    for (let i = 0; i < count && at + 14 + i * 12 <= tiff.length; i++) {
      const entry = at + 2 + i * 12;
      const tag = view.getUint16(entry, little);
      if (tag === EXIF_DIRECTORY) pending.push(view.getUint32(entry + 8, little));
      const field = FIELDS[tag];
      if (field && exif[field] === undefined) exif[field] = textAt(tiff, view, entry, little);
    }
  }
  return exif;
}

function textAt(tiff: Uint8Array, view: DataView, entry: number, little: boolean): string {
  const size = (TYPE_BYTES[view.getUint16(entry + 2, little)] ?? 0) * view.getUint32(entry + 4, little);
  const at = size <= 4 ? entry + 8 : view.getUint32(entry + 8, little);
  const raw = tiff.subarray(at, at + Math.min(size, MAX_TEXT_BYTES));
  const isComment = view.getUint16(entry, little) === 0x9286;
  return (isComment ? commentText(raw, little) : new TextDecoder().decode(raw)).split("\0")[0]!.trim();
}

/** The first eight bytes name the encoding. The specification does not fix the byte order, and writers differ. */
function commentText(raw: Uint8Array, little: boolean): string {
  const rest = raw.subarray(8);
  if (!hasText(raw, 0, "UNICODE")) return new TextDecoder().decode(rest);
  const looksLittle = rest[1] === 0 ? true : rest[0] === 0 ? false : little;
  return new TextDecoder(looksLittle ? "utf-16le" : "utf-16be").decode(rest);
}
