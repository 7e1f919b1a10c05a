/** Mutations that turn a good file into a bad one. They are pure: the same draw gives the same bytes. */
import { crc32 } from "node:zlib";

/** 0 ≤ x < 1. */
export type Draw = () => number;
export const pick = <T>(draw: Draw, items: readonly T[]): T => items[Math.floor(draw() * items.length)] as T;
export const below = (draw: Draw, limit: number) => Math.floor(draw() * limit);

/** mulberry32 */
export function drawFrom(seed: number): Draw {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

export function truncate(bytes: Uint8Array, draw: Draw): Uint8Array {
  return bytes.slice(0, 1 + below(draw, bytes.length - 1));
}

export function flipBits(bytes: Uint8Array, draw: Draw): Uint8Array {
  const copy = bytes.slice();
  for (let i = 0, count = 1 << below(draw, 8); i < count; i++) copy[below(draw, copy.length)]! ^= 1 << below(draw, 8);
  return copy;
}

/** Changes bytes of the header, on which most decisions of a decoder depend. */
export function flipHead(bytes: Uint8Array, draw: Draw): Uint8Array {
  const copy = bytes.slice();
  for (let i = 0; i < 4; i++) copy[4 + below(draw, Math.min(600, copy.length - 4))] = below(draw, 256);
  return copy;
}

export function fill(bytes: Uint8Array, draw: Draw): Uint8Array {
  const copy = bytes.slice();
  const from = 4 + below(draw, copy.length - 4);
  copy.fill(pick(draw, [0, 0xff, 0x80, 0xd8]), from, from + below(draw, 4_096));
  return copy;
}

/** A piece of it twice, or a piece of it missing. */
export function shift(bytes: Uint8Array, draw: Draw): Uint8Array {
  const [a, b] = [4 + below(draw, bytes.length - 4), 4 + below(draw, bytes.length - 4)];
  return Uint8Array.from(Buffer.concat([bytes.subarray(0, a), bytes.subarray(b)]));
}

export const MUTATIONS = { truncate, flipBits, flipHead, fill, shift } as const;

const SIDES = [0, 1, 16_383, 16_384, 65_500, 65_535, 100_000, 0x7fffffff, 0xffffffff];

/** Other sides in the header than the pixels have. */
export function resizePng(bytes: Uint8Array, draw: Draw): Uint8Array {
  const copy = Buffer.from(bytes);
  copy.writeUInt32BE(pick(draw, SIDES), 16);
  copy.writeUInt32BE(pick(draw, SIDES), 20);
  copy.writeUInt32BE(crc32(copy.subarray(12, 29)), 29);
  return Uint8Array.from(copy);
}

export function resizeJpeg(bytes: Uint8Array, draw: Draw): Uint8Array {
  const copy = Buffer.from(bytes);
  for (let at = 2; at + 9 < copy.length && copy[at] === 0xff; at += 2 + copy.readUInt16BE(at + 2)) {
    if ((copy[at + 1]! & 0xf0) !== 0xc0 || copy[at + 1] === 0xc4) continue;
    copy.writeUInt16BE(pick(draw, SIDES) & 0xffff, at + 5);
    copy.writeUInt16BE(pick(draw, SIDES) & 0xffff, at + 7);
    break;
  }
  return Uint8Array.from(copy);
}

export function resizeGif(bytes: Uint8Array, draw: Draw): Uint8Array {
  const copy = Buffer.from(bytes);
  copy.writeUInt16LE(pick(draw, SIDES) & 0xffff, 6);
  copy.writeUInt16LE(pick(draw, SIDES) & 0xffff, 8);
  return Uint8Array.from(copy);
}

export function pngChunk(type: string, body: Uint8Array): Buffer {
  const named = Buffer.concat([Buffer.from(type, "latin1"), body]);
  const [length, check] = [Buffer.alloc(4), Buffer.alloc(4)];
  length.writeUInt32BE(body.length);
  check.writeUInt32BE(crc32(named));
  return Buffer.concat([length, named, check]);
}

/** After the header, before the pixels. */
export const withPngChunk = (png: Uint8Array, type: string, body: Uint8Array): Uint8Array =>
  Uint8Array.from(Buffer.concat([png.subarray(0, 33), pngChunk(type, body), png.subarray(33)]));

export function withJpegSegment(jpeg: Uint8Array, marker: number, body: Uint8Array): Uint8Array {
  const head = Buffer.from([0xff, marker, 0, 0]);
  head.writeUInt16BE(Math.min(body.length + 2, 0xffff), 2);
  return Uint8Array.from(Buffer.concat([jpeg.subarray(0, 2), head, body.subarray(0, 0xfffd), jpeg.subarray(2)]));
}
