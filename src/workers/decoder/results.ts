/** Reads the words that the drawing kernel wrote. Pure. */
import { MOST_ALTERNATIVES } from "../../native/cuda/decode/kernels.ts";

export const intsOf = (bytes: Uint8Array) => new Int32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);

export function alternativesOf(words: Int32Array, row: number, count: number): (readonly [number, number])[] {
  const floats = new Float32Array(words.buffer, words.byteOffset, words.length);
  return Array.from({ length: Math.min(count, MOST_ALTERNATIVES) }, (_, i) => {
    const at = (row * MOST_ALTERNATIVES + i) * 2;
    return [words[at]!, floats[at + 1]!] as const;
  });
}
