/** Writes content credentials as CBOR in boxes, into JPEG, PNG and WebP. They are unsigned: signing_kit.ts signs. */
import { pngChunk } from "./mutations.ts";

export type Value = number | string | boolean | Uint8Array | readonly Value[] | { readonly [key: string]: Value };

export function head(major: number, length: number): Buffer {
  if (length < 24) return Buffer.from([(major << 5) | length]);
  const bytes = Buffer.alloc(5, (major << 5) | 26);
  bytes.writeUInt32BE(length, 1);
  return bytes;
}

export function cbor(value: Value): Buffer {
  if (typeof value === "boolean") return Buffer.from([value ? 0xf5 : 0xf4]);
  if (typeof value === "number") return head(0, value);
  if (typeof value === "string") return Buffer.concat([head(3, Buffer.byteLength(value)), Buffer.from(value)]);
  if (value instanceof Uint8Array) return Buffer.concat([head(2, value.length), value]);
  if (Array.isArray(value)) return Buffer.concat([head(4, value.length), ...value.map(cbor)]);
  const entries = Object.entries(value);
  return Buffer.concat([head(5, entries.length), ...entries.flatMap(([key, item]) => [cbor(key), cbor(item)])]);
}

export function box(type: string, ...body: Uint8Array[]): Buffer {
  const whole = Buffer.concat([Buffer.alloc(4), Buffer.from(type, "latin1"), ...body]);
  whole.writeUInt32BE(whole.length, 0);
  return whole;
}

export const superbox = (label: string, ...content: Uint8Array[]) =>
  box("jumb", box("jumd", Buffer.alloc(16), Buffer.from([3]), Buffer.from(`${label}\0`)), ...content);

type Claims = { claim: Value; assertions: Record<string, Value> };

/** The newest manifest is the last. */
export function store(...manifests: Claims[]): Buffer {
  const made = manifests.map(({ claim, assertions }, i) => {
    const boxes = Object.entries(assertions).map(([label, value]) => superbox(label, box("cbor", cbor(value))));
    const content = superbox("c2pa.assertions", ...boxes);
    return superbox(`urn:uuid:${i + 1}`, content, superbox("c2pa.claim", box("cbor", cbor(claim))));
  });
  return superbox("c2pa", ...made);
}

const SEGMENT_BYTES = 40_000;

/** Over as many segments as it takes, each with the box's header again. */
export function intoJpeg(jpeg: Uint8Array, jumbf: Buffer): Buffer {
  const segments: Buffer[] = [];
  for (let at = 0, number = 1; at < jumbf.length; at += SEGMENT_BYTES, number++) {
    const part = jumbf.subarray(at, at + SEGMENT_BYTES);
    const start = Buffer.alloc(12);
    start.writeUInt16BE(0xffeb, 0);
    start.write("JP", 4, "latin1");
    start.writeUInt16BE(1, 6);
    start.writeUInt32BE(number, 8);
    const segment = Buffer.concat([start, number === 1 ? part : Buffer.concat([jumbf.subarray(0, 8), part])]);
    segment.writeUInt16BE(segment.length - 2, 2);
    segments.push(segment);
  }
  return Buffer.concat([jpeg.subarray(0, 2), ...segments, jpeg.subarray(2)]);
}

export const intoPng = (png: Uint8Array, jumbf: Buffer) =>
  Buffer.concat([png.subarray(0, 33), pngChunk("caBX", jumbf), png.subarray(33)]);

export function intoWebp(webp: Uint8Array, jumbf: Buffer): Buffer {
  const chunk = Buffer.concat([Buffer.from("C2PA\0\0\0\0", "latin1"), jumbf, Buffer.alloc(jumbf.length & 1)]);
  chunk.writeUInt32LE(jumbf.length, 4);
  const whole = Buffer.concat([webp, chunk]);
  whole.writeUInt32LE(whole.length - 8, 4);
  return whole;
}
