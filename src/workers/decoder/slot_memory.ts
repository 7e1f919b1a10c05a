/** Memory of the device that belongs to slots and is too large for the board: biases, lists for penalties, masks. */
import { type Device, MOST_ALTERNATIVES, RESULT_WORDS } from "../../native/cuda/decode/kernels.ts";
import type { Board } from "./board.ts";

export const MOST_BIASES = 1_088; // the API allows 1,024; end tokens of requests that ignore them come on top

export type SlotSize = { slots: number; rows: number; vocab: number; vocabStride: number; contextLength: number };

export function openSlotMemory(device: Device, { slots, rows, vocab, vocabStride, contextLength }: SlotSize) {
  const maskWords = Math.ceil(vocab / 32);
  const listed = contextLength;
  const held: number[] = [];
  let bytes = 0;
  const room = (size: number) => {
    const at = device.allocate(size);
    held.push(at);
    bytes += size;
    return at;
  };
  const biases = room(slots * MOST_BIASES * 8);
  const lists = room(slots * listed * 8);
  const saved = room(slots * (MOST_BIASES + listed) * 4);
  const masks = room(slots * maskWords * 4);
  const results = room(rows * RESULT_WORDS * 4);
  const alternatives = room(rows * MOST_ALTERNATIVES * 8);
  return {
    results,
    alternatives,
    bytes,
    putBiases(slot: number, pairs: readonly (readonly [token: number, bias: number])[]) {
      if (pairs.length === 0) return;
      const words = new Int32Array(pairs.length * 2);
      const floats = new Float32Array(words.buffer);
      pairs.forEach(([token, bias], i) => {
        words[2 * i] = token;
        floats[2 * i + 1] = bias;
      });
      device.put(biases + slot * MOST_BIASES * 8, words);
    },
    putMask: (slot: number, bits: Uint32Array) => device.put(masks + slot * maskWords * 4, bits),
    /** All that a slot has here from one step to the next. */
    partsOf: (slot: number) => [
      { at: biases + slot * MOST_BIASES * 8, bytes: MOST_BIASES * 8 },
      { at: lists + slot * listed * 8, bytes: listed * 8 },
      { at: masks + slot * maskWords * 4, bytes: maskWords * 4 },
    ],
    /** Arguments of the drawing kernel behind the logits. */
    drawValues: ({ layout, at }: Board) => [
      ...[at, biases, lists, saved, masks, results, alternatives],
      ...[layout.rowSlots, layout.slotTokens, layout.slotPositions, layout.drawings],
      ...[vocab, vocabStride, MOST_BIASES, listed, maskWords, 0],
    ],
    free: () => held.splice(0).forEach(device.free),
  };
}
