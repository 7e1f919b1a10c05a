/** The chunks of JPEG, PNG and WebP files. Lengths are untrusted: a chunk ends at the latest where the file ends. */
import { hasText, startsWith } from "../../lib/detection/sniff.ts";

export type Piece = { type: string; body: Uint8Array };

const MAX_PIECES = 20_000;
const LONE = (marker: number) => marker === 0x01 || (marker >= 0xd0 && marker <= 0xd7); // markers without a length

/** Segments before the pixels; `type` is the marker in hex, such as "eb" for APP11. */
export function* jpegSegments(bytes: Uint8Array): Generator<Piece> {
  if (!startsWith(bytes, [0xff, 0xd8])) return;
  for (let at = 2, count = 0; at + 4 <= bytes.length && count < MAX_PIECES; count++) {
    if (bytes[at] !== 0xff) return;
    const marker = bytes[at + 1]!;
    if (marker === 0xff) at += 1;
    else if (LONE(marker)) at += 2;
    else {
      if (marker === 0xd9 || marker === 0xda) return; // the end of the image, or the pixels
      const length = (bytes[at + 2]! << 8) | bytes[at + 3]!;
      if (length < 2) return;
      yield { type: marker.toString(16), body: bytes.subarray(at + 4, at + 2 + length) };
      at += 2 + length;
    }
  }
}

export function* pngChunks(bytes: Uint8Array): Generator<Piece> {
  const view = viewOf(bytes);
  for (let at = 8, count = 0; at + 8 <= bytes.length && count < MAX_PIECES; count++) {
    const length = view.getUint32(at);
    const type = latin(bytes.subarray(at + 4, at + 8));
    yield { type, body: bytes.subarray(at + 8, at + 8 + length) };
    if (type === "IEND") return;
    at += 12 + length;
  }
}

export function* riffChunks(bytes: Uint8Array): Generator<Piece> {
  if (!hasText(bytes, 0, "RIFF")) return;
  const view = viewOf(bytes);
  for (let at = 12, count = 0; at + 8 <= bytes.length && count < MAX_PIECES; count++) {
    const length = view.getUint32(at + 4, true);
    yield { type: latin(bytes.subarray(at, at + 4)), body: bytes.subarray(at + 8, at + 8 + length) };
    at += 8 + length + (length & 1);
  }
}

export const viewOf = (bytes: Uint8Array) => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
export const latin = (bytes: Uint8Array) => String.fromCharCode(...bytes.subarray(0, 4_096));
