/** Random blocks of quantized types. Their numbers have a given deviation and no mean, as those of a trained matrix. */
import { TENSOR_TYPES } from "../../src/lib/gguf/types.ts";

export type BlockType = "Q8_0" | "Q4_K" | "Q6_K";
const SCALE = 32; // of each group
const FACTORS: Record<BlockType, { at: readonly number[]; deviation: number }> = {
  Q8_0: { at: [0], deviation: 73.9 }, // bytes are uniform
  Q4_K: { at: [0, 2], deviation: SCALE * 4.61 },
  Q6_K: { at: [208], deviation: SCALE * 18.5 },
};

export function randomBlocks(name: BlockType, blocks: number, deviation: number): Uint8Array<ArrayBuffer> {
  const { bytes: size } = [...TENSOR_TYPES.values()].find((type) => type.name === name)!;
  const bytes = new Uint8Array(size * blocks);
  let state = 1;
  for (let i = 0; i < bytes.length; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    bytes[i] = state >>> 24;
  }
  const { at, deviation: own } = FACTORS[name];
  const view = new DataView(bytes.buffer);
  for (let block = 0; block < blocks; block++) {
    const start = block * size;
    view.setFloat16(start + (at[0] as number), deviation / own, true);
    if (name === "Q6_K") bytes.fill(SCALE, start + 192, start + 208);
    if (name !== "Q4_K") continue;
    view.setFloat16(start + 2, (7.5 * deviation) / own, true);
    // All scales and minima are 32: six bits in the first eight bytes, whose top bits belong to the later groups.
    bytes.fill(SCALE | ((SCALE >> 4) << 6), start + 4, start + 12);
    bytes.fill(0, start + 12, start + 16);
  }
  return bytes;
}
