/** Number formats of weights: decodes those of safetensors to F32, and encodes F32 as a type of GGUF. */
import { CheckpointError } from "./families.ts";

/** Types of safetensors that hold weights, and their bytes. */
export const WEIGHT_BYTES: Readonly<Record<string, number>> = { F32: 4, F16: 2, BF16: 2, F8_E4M3: 1, F8_E5M2: 1 };

export type Encoded = "F32" | "F16" | "BF16" | "Q8_0";

/** `values` and `bytes` are reused by the caller: the result is written into `into`. */
export function decode(dtype: string, bytes: Uint8Array, into: Float32Array): Float32Array {
  const count = bytes.byteLength / (WEIGHT_BYTES[dtype] ?? 1);
  const out = into.subarray(0, count);
  const bits = new Uint32Array(out.buffer, out.byteOffset, count);
  if (dtype === "F32") new Uint8Array(out.buffer, out.byteOffset, count * 4).set(bytes);
  else if (dtype === "BF16") {
    const from = halves(bytes, count);
    for (let i = 0; i < count; i++) bits[i] = (from[i] as number) << 16;
  } else if (dtype === "F16") {
    const [from, table] = [halves(bytes, count), halfTable()];
    for (let i = 0; i < count; i++) out[i] = table[from[i] as number] as number;
  } else {
    const table = dtype === "F8_E4M3" ? E4M3 : E5M2;
    for (let i = 0; i < count; i++) out[i] = table[bytes[i] as number] as number;
  }
  return out;
}

export function encode(type: Encoded, values: Float32Array): Uint8Array {
  if (type === "F32") return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  if (type === "Q8_0") return encodeQ8(values);
  const out = new Uint16Array(values.length);
  if (type === "F16") {
    const half = new Float16Array(out.buffer);
    half.set(values);
    for (const value of half) if (!Number.isFinite(value)) throw tooLarge();
  } else {
    const bits = new Uint32Array(values.buffer, values.byteOffset, values.length);
    for (let i = 0; i < bits.length; i++) {
      const each = bits[i] as number;
      out[i] = (each + 0x7fff + ((each >>> 16) & 1)) >>> 16; // to the nearest, ties to even
    }
  }
  return new Uint8Array(out.buffer);
}

const tooLarge = () => new CheckpointError("A weight is not a number, or it is too large for the type F16");

const BLOCK = 32;
const BLOCK_BYTES = 34;

/** Blocks of 32 values: a scale in F16, then the values as signed bytes. Rounded as ggml does, in single precision. */
function encodeQ8(values: Float32Array): Uint8Array {
  const blocks = values.length / BLOCK;
  const out = new Uint8Array(blocks * BLOCK_BYTES);
  const [signed, view] = [new Int8Array(out.buffer), new DataView(out.buffer)];
  for (let block = 0; block < blocks; block++) {
    const from = block * BLOCK;
    let most = 0;
    for (let i = from; i < from + BLOCK; i++) most = Math.max(most, Math.abs(values[i] as number));
    const scale = Math.fround(most / 127);
    if (!(scale < 65_504)) throw tooLarge();
    const inverse = scale === 0 ? 0 : Math.fround(1 / scale);
    const at = block * BLOCK_BYTES;
    view.setFloat16(at, scale, true);
    for (let i = 0; i < BLOCK; i++) {
      const value = Math.fround((values[from + i] as number) * inverse);
      signed[at + 2 + i] = value < 0 ? -Math.floor(0.5 - value) : Math.floor(value + 0.5); // half away from zero
    }
  }
  return out;
}

/** Bytes of a file may begin at an odd address. */
const halves = (bytes: Uint8Array, count: number): Uint16Array =>
  bytes.byteOffset % 2 === 0
    ? new Uint16Array(bytes.buffer, bytes.byteOffset, count)
    : new Uint16Array(new Uint8Array(bytes).buffer, 0, count);

let halfValues: Float32Array | undefined;
function halfTable(): Float32Array {
  if (!halfValues) {
    const bits = Uint16Array.from({ length: 65_536 }, (_, i) => i);
    halfValues = Float32Array.from(new Float16Array(bits.buffer));
  }
  return halfValues;
}

const eightBits = (exponentBits: number, bias: number, isNan: (byte: number) => boolean): Float32Array => {
  const mantissaBits = 7 - exponentBits;
  return Float32Array.from({ length: 256 }, (_, byte) => {
    if (isNan(byte & 0x7f)) return Number.NaN;
    const sign = byte & 0x80 ? -1 : 1;
    const exponent = (byte & 0x7f) >> mantissaBits;
    const fraction = (byte & ((1 << mantissaBits) - 1)) / 2 ** mantissaBits;
    return sign * (exponent === 0 ? fraction * 2 ** (1 - bias) : (1 + fraction) * 2 ** (exponent - bias));
  });
};
const E4M3 = eightBits(4, 7, (byte) => byte === 0x7f);
const E5M2 = eightBits(5, 15, (byte) => byte >= 0x7c);

/**
 * One block of MXFP4: 32 numbers of 4 bits with one scale. In safetensors a byte holds two neighbours; in GGUF a number
 * of the first half and one of the second.
 */
export function repackMxfp4(blocks: Uint8Array, scale: number, out: Uint8Array, at: number) {
  out[at] = scale;
  for (let i = 0; i < 16; i++) {
    const [low, high] = [blocks[i >> 1] as number, blocks[8 + (i >> 1)] as number];
    const shift = (i & 1) * 4;
    out[at + 1 + i] = ((low >> shift) & 0x0f) | (((high >> shift) & 0x0f) << 4);
  }
}
