/** Writes GGUF version 3, so that tests need no model from outside. */
import { closeSync, mkdirSync, openSync, writeSync } from "node:fs";
import { dirname } from "node:path";

const ALIGNMENT = 32;
const TYPE_CODES = { u8: 0, i8: 1, u32: 4, i32: 5, f32: 6, bool: 7, str: 8, array: 9, u64: 10 } as const;

type Scalar = "u32" | "i32" | "f32" | "bool" | "str" | "u64";
export type GgufValue =
  | { type: Exclude<Scalar, "bool" | "str">; value: number }
  | { type: "bool"; value: boolean }
  | { type: "str"; value: string }
  | { type: "array"; of: Scalar; value: readonly (string | number | boolean)[] };

export const TENSOR_TYPES = { F32: 0, F16: 1, Q8_0: 8, BF16: 30, MXFP4: 39 } as const;
export type TensorType = keyof typeof TENSOR_TYPES;

/** `shape` as ggml counts: the length of a row first. */
export type GgufTensor = { name: string; shape: readonly number[]; type: TensorType; values: Float32Array };

export const u32 = (value: number): GgufValue => ({ type: "u32", value });
export const f32 = (value: number): GgufValue => ({ type: "f32", value });
export const bool = (value: boolean): GgufValue => ({ type: "bool", value });
export const str = (value: string): GgufValue => ({ type: "str", value });
export const strings = (value: readonly string[]): GgufValue => ({ type: "array", of: "str", value });
export const i32s = (value: readonly number[]): GgufValue => ({ type: "array", of: "i32", value });
export const f32s = (value: readonly number[]): GgufValue => ({ type: "array", of: "f32", value });

export function writeGguf(path: string, metadata: Readonly<Record<string, GgufValue>>, tensors: readonly GgufTensor[]) {
  const header = ggufHeader(metadata, tensors);
  mkdirSync(dirname(path), { recursive: true });
  const fd = openSync(path, "w");
  try {
    writeSync(fd, header);
    for (const tensor of tensors) {
      const bytes = encode(tensor);
      writeSync(fd, bytes);
      writeSync(fd, new Uint8Array(padding(bytes.byteLength)));
    }
  } finally {
    closeSync(fd);
  }
}

/** Everything before the first tensor's bytes, its padding included. */
export function ggufHeader(
  metadata: Readonly<Record<string, GgufValue>>,
  tensors: readonly Omit<GgufTensor, "values">[],
): Uint8Array {
  const parts: Uint8Array[] = [];
  const entries = Object.entries(metadata);
  parts.push(Buffer.from("GGUF"), int32(3), int64(tensors.length), int64(entries.length));
  for (const [key, entry] of entries) {
    parts.push(text(key), int32(TYPE_CODES[entry.type]));
    if (entry.type !== "array") parts.push(scalar(entry.type, entry.value));
    else {
      parts.push(int32(TYPE_CODES[entry.of]), int64(entry.value.length));
      for (const value of entry.value) parts.push(scalar(entry.of, value));
    }
  }
  let offset = 0;
  for (const { name, shape, type } of tensors) {
    parts.push(text(name), int32(shape.length), ...shape.map(int64), int32(TENSOR_TYPES[type]), int64(offset));
    const size = byteLength(type, shape);
    offset += size + padding(size);
  }
  const length = parts.reduce((sum, part) => sum + part.byteLength, 0);
  return new Uint8Array(Buffer.concat([...parts, new Uint8Array(padding(length))]));
}

const padding = (bytes: number) => (ALIGNMENT - (bytes % ALIGNMENT)) % ALIGNMENT;
const int32 = (value: number) => new Uint8Array(new Uint32Array([value]).buffer);
const int64 = (value: number) => new Uint8Array(new BigUint64Array([BigInt(value)]).buffer);

function text(value: string): Uint8Array {
  const bytes = Buffer.from(value);
  return Buffer.concat([int64(bytes.byteLength), bytes]);
}

function scalar(type: Scalar, value: string | number | boolean): Uint8Array {
  if (type === "str") return text(String(value));
  if (type === "bool") return Uint8Array.of(value ? 1 : 0);
  if (type === "f32") return new Uint8Array(Float32Array.of(Number(value)).buffer);
  if (type === "u64") return int64(Number(value));
  return new Uint8Array(Int32Array.of(Number(value)).buffer);
}

export function byteLength(type: TensorType, shape: readonly number[]): number {
  const count = shape.reduce((product, n) => product * n, 1);
  return type === "F32"
    ? count * 4
    : type === "F16" || type === "BF16"
      ? count * 2
      : (count / 32) * (type === "Q8_0" ? 34 : 17);
}

function encode({ type, values }: GgufTensor): Uint8Array {
  if (type === "F32") return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  if (type === "F16") return new Uint8Array(new Float16Array(values).buffer);
  if (type === "BF16") return encodeBf16(values);
  if (type === "MXFP4") return encodeMxfp4(values);
  const blocks = values.length / 32; // of 32 values: one half-precision scale, then 32 signed bytes
  const out = new Uint8Array(blocks * 34);
  const view = new DataView(out.buffer);
  for (let block = 0; block < blocks; block++) {
    let peak = 0;
    for (let i = 0; i < 32; i++) peak = Math.max(peak, Math.abs(values[block * 32 + i]!));
    const scale = peak / 127;
    view.setFloat16(block * 34, scale, true);
    for (let i = 0; i < 32; i++) {
      view.setInt8(block * 34 + 2 + i, scale === 0 ? 0 : Math.round(values[block * 32 + i]! / scale));
    }
  }
  return out;
}

/** The upper halves, rounded to the nearest even. */
const encodeBf16 = (values: Float32Array) =>
  new Uint8Array(
    Uint16Array.from(new Uint32Array(values.slice().buffer), (bits) => (bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16)
      .buffer,
  );

/** Numbers of four bits, doubled. The upper eight are the same below zero. */
const FP4 = [0, 1, 2, 3, 4, 6, 8, 12];

/** Blocks of 32 values: an exponent, then two numbers of four bits in each byte, from both halves. */
function encodeMxfp4(values: Float32Array): Uint8Array {
  const out = new Uint8Array((values.length / 32) * 17);
  for (let block = 0; block * 32 < values.length; block++) {
    const own = values.subarray(block * 32, block * 32 + 32);
    const peak = own.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
    const exponent = peak === 0 ? 0 : Math.floor(Math.log2(peak)) - 2 + 127;
    const four = (value: number) => {
      const size = Math.abs(value) / 2 ** (exponent - 128);
      const nearest = FP4.reduce(
        (best, each, i) => (Math.abs(each - size) < Math.abs(FP4[best]! - size) ? i : best),
        0,
      );
      return nearest + (value < 0 ? 8 : 0);
    };
    out[block * 17] = exponent;
    for (let i = 0; i < 16; i++) out[block * 17 + 1 + i] = four(own[i]!) | (four(own[16 + i]!) << 4);
  }
  return out;
}
