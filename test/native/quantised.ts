/** Rows of weights in the formats of GGUF files, with the values that they stand for. */
import type { Format } from "../../src/native/cuda/decode/kernels.ts";
import { asBf16, fromBf16s } from "./decode_kit.ts";

export type Quantised = { bytes: Uint8Array; rowBytes: number; values: Float32Array };

export function quantise(format: Format, values: Float32Array, depth: number): Quantised {
  if (format === "bf16") {
    const bits = asBf16(values);
    return { bytes: new Uint8Array(bits.buffer), rowBytes: depth * 2, values: fromBf16s(bits) };
  }
  return format === "q8" ? q8(values, depth) : q4(values, depth);
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
