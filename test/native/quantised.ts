/** Rows of weights in the formats of GGUF files, with the values that they stand for. */
import type { Format } from "../../src/native/cuda/decode/kernels.ts";
import { asBf16, fromBf16s } from "./decode_kit.ts";

export type Quantised = { bytes: Uint8Array; rowBytes: number; values: Float32Array };

export function quantise(format: Format, values: Float32Array, depth: number): Quantised {
  if (format === "bf16") {
    const bits = asBf16(values);
    return { bytes: new Uint8Array(bits.buffer), rowBytes: depth * 2, values: fromBf16s(bits) };
  }
  if (format === "q8") return q8(values, depth);
  return format === "q4" ? q4(values, depth) : q6(values, depth);
}

function q8(values: Float32Array, depth: number): Quantised {
  const blocks = values.length / 32;
  const bytes = new Uint8Array(blocks * 34);
  const view = new DataView(bytes.buffer);
  const decoded = new Float32Array(values.length);
  for (let block = 0; block < blocks; block++) {
    const some = values.subarray(block * 32, block * 32 + 32);
    view.setFloat16(block * 34, some.reduce((most, each) => Math.max(most, Math.abs(each)), 0) / 127, true);
    const scale = view.getFloat16(block * 34, true);
    some.forEach((value, i) => {
      const quant = Math.max(-127, Math.min(127, Math.round(value / scale)));
      view.setInt8(block * 34 + 2 + i, quant);
      decoded[block * 32 + i] = quant * scale;
    });
  }
  return { bytes, rowBytes: (depth / 32) * 34, values: decoded };
}

/** Scales and minima are arbitrary, so that all their bits are used. */
function q4(values: Float32Array, depth: number): Quantised {
  const blocks = values.length / 256;
  const bytes = new Uint8Array(blocks * 144);
  const view = new DataView(bytes.buffer);
  const decoded = new Float32Array(values.length);
  for (let block = 0; block < blocks; block++) {
    const at = block * 144;
    view.setFloat16(at, 0.0007 + 0.0001 * (block % 7), true);
    view.setFloat16(at + 2, 0.003, true);
    const [d, least] = [view.getFloat16(at, true), view.getFloat16(at + 2, true)];
    for (let group = 0; group < 8; group++) {
      const scale = (17 * block + 11 * group + 5) % 64;
      const minimum = (29 * block + 7 * group + 3) % 64;
      if (group < 4) {
        bytes[at + 4 + group]! |= scale;
        bytes[at + 8 + group]! |= minimum;
      } else {
        bytes[at + 8 + group]! |= (scale & 15) | ((minimum & 15) << 4);
        bytes[at + group]! |= (scale >> 4) << 6;
        bytes[at + 4 + group]! |= (minimum >> 4) << 6;
      }
      for (let i = 0; i < 32; i++) {
        const place = block * 256 + group * 32 + i;
        const quant = Math.max(0, Math.min(15, Math.round((values[place]! + least * minimum) / (d * scale || 1))));
        bytes[at + 16 + (group >> 1) * 32 + i]! |= quant << ((group & 1) * 4);
        decoded[place] = d * scale * quant - least * minimum;
      }
    }
  }
  return { bytes, rowBytes: (depth / 256) * 144, values: decoded };
}

function q6(values: Float32Array, depth: number): Quantised {
  const blocks = values.length / 256;
  const bytes = new Uint8Array(blocks * 210);
  const view = new DataView(bytes.buffer);
  const decoded = new Float32Array(values.length);
  for (let block = 0; block < blocks; block++) {
    const at = block * 210;
    view.setFloat16(at + 208, 0.0004 + 0.0001 * (block % 5), true);
    const d = view.getFloat16(at + 208, true);
    for (let i = 0; i < 16; i++) view.setInt8(at + 192 + i, ((37 * block + 23 * i) % 120) - 50);
    for (let i = 0; i < 256; i++) {
      const [half, group, place] = [i >> 7, (i >> 5) & 3, i & 31];
      const scale = view.getInt8(at + 192 + half * 8 + group * 2 + (place >> 4));
      const value = values[block * 256 + i]!;
      const quant = scale === 0 ? 5 : Math.max(-32, Math.min(31, Math.round(value / (d * scale))));
      const bits = quant + 32;
      bytes[at + half * 64 + (group & 1) * 32 + place]! |= (bits & 15) << ((group >> 1) * 4);
      bytes[at + 128 + half * 32 + place]! |= (bits >> 4) << (group * 2);
      decoded[block * 256 + i] = d * scale * quant;
    }
  }
  return { bytes, rowBytes: (depth / 256) * 210, values: decoded };
}
