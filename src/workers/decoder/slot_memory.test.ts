import { expect, test } from "bun:test";
import { type Device, MOST_ALTERNATIVES, RESULT_WORDS } from "../../native/cuda/decode/kernels.ts";
import type { Board } from "./board.ts";
import { MOST_BIASES, openSlotMemory } from "./slot_memory.ts";

function fakeDevice() {
  const sizes: number[] = [];
  const freed: number[] = [];
  const puts: { at: number; bytes: number[] }[] = [];
  const device = {
    allocate: (bytes: number) => 1e9 * sizes.push(bytes),
    free: (at: number) => void freed.push(at),
    put: (at: number, { buffer, byteOffset, byteLength }: NodeJS.TypedArray) =>
      void puts.push({ at, bytes: [...new Uint8Array(buffer, byteOffset, byteLength)] }),
  } as unknown as Device;
  return { device, sizes, freed, puts };
}

test("each slot has room for its biases, its list, its mask, and each row for its result", () => {
  const { device, sizes, freed, puts } = fakeDevice();
  const memory = openSlotMemory(device, { slots: 3, rows: 5, vocab: 100, vocabStride: 128, contextLength: 40 });
  const words = 4; // bits of 100 tokens
  expect(sizes).toEqual([
    3 * MOST_BIASES * 8,
    3 * 40 * 8,
    3 * (MOST_BIASES + 40) * 4,
    3 * words * 4,
    5 * RESULT_WORDS * 4,
    5 * MOST_ALTERNATIVES * 8,
  ]);
  expect(memory.bytes).toBe(sizes.reduce((sum, size) => sum + size, 0));
  expect([memory.results, memory.alternatives]).toEqual([5e9, 6e9]);
  memory.putMask(2, Uint32Array.of(7));
  memory.putBiases(1, []);
  memory.putBiases(1, [
    [9, 0.5],
    [3, -1],
  ]);
  const pairs = Buffer.alloc(16);
  pairs.writeInt32LE(9, 0);
  pairs.writeFloatLE(0.5, 4);
  pairs.writeInt32LE(3, 8);
  pairs.writeFloatLE(-1, 12);
  expect(puts).toEqual([
    { at: 4e9 + 2 * words * 4, bytes: [7, 0, 0, 0] },
    { at: 1e9 + MOST_BIASES * 8, bytes: [...pairs] },
  ]);
  const layout = { rowSlots: 1, slotTokens: 2, slotPositions: 3, drawings: 4 };
  const values = memory.drawValues({ layout, at: 77 } as unknown as Board);
  expect(values).toEqual([77, 1e9, 2e9, 3e9, 4e9, 5e9, 6e9, 1, 2, 3, 4, 100, 128, MOST_BIASES, 40, words, 0]);
  memory.free();
  memory.free();
  expect(freed).toEqual([1e9, 2e9, 3e9, 4e9, 5e9, 6e9]);
});
