/** One launch of the drawing kernel over rows of logits, and the same filters in plain TypeScript. */
import { DRAW_THREADS, DRAWING_WORDS, MOST_ALTERNATIVES, RESULT_WORDS } from "../../src/native/cuda/decode/kernels.ts";
import { type Drawing, drawingWords } from "../../src/workers/decoder/drawing.ts";
import { openMemory } from "./decode_kit.ts";
import type { TestDevice } from "./emulation/choice.ts";

const MOST_BIASES = 8;
const MOST_LISTED = 16;

export type Drawn = { token: number; logp: number; position: number; alternatives: [token: number, logp: number][] };

/** Opens slots with these parameters. `draw` gives each slot one row of logits. */
export function openSlots(
  device: TestDevice,
  vocab: number,
  slots: readonly Drawing[],
  masks?: readonly (Uint32Array | null)[],
) {
  const memory = openMemory(device);
  const count = slots.length;
  const maskWords = Math.ceil(vocab / 32);
  const [rowSlots, slotTokens, slotPositions, drawings] = [0, count, 2 * count, 4 * count];
  const words = new Int32Array(drawings + count * DRAWING_WORDS);
  slots.forEach((slot, i) => {
    words[rowSlots + i] = count - 1 - i; // rows and slots must not be mixed up
    words[slotPositions + i] = 100 + i;
    words.set(drawingWords(slot), drawings + i * DRAWING_WORDS);
  });
  const biases = new Int32Array(count * MOST_BIASES * 2);
  const biasFloats = new Float32Array(biases.buffer);
  const bits = new Uint32Array(count * maskWords);
  slots.forEach(({ logitBias }, i) => {
    logitBias.forEach(([token, bias], k) => {
      biases[(i * MOST_BIASES + k) * 2] = token;
      biasFloats[(i * MOST_BIASES + k) * 2 + 1] = bias;
    });
    const mask = masks?.[i];
    if (mask) bits.set(mask, i * maskWords);
  });
  const board = memory.put(words);
  const stride = Math.ceil(vocab / 8) * 8;
  const logits = memory.room(count * stride * 4);
  const results = memory.room(count * RESULT_WORDS * 4);
  const alternatives = memory.room(count * MOST_ALTERNATIVES * 8);
  const values = [
    ...[logits, board, memory.put(biases), memory.room(count * MOST_LISTED * 8)],
    ...[memory.room(count * (MOST_BIASES + MOST_LISTED) * 4), memory.put(bits), results, alternatives],
    ...[rowSlots, slotTokens, slotPositions, drawings, vocab, stride, MOST_BIASES, MOST_LISTED, maskWords, 0],
  ];
  return {
    /** `rows`: the logits of each slot. Returns what each slot drew. */
    draw(rows: readonly Float32Array[]): Drawn[] {
      const all = new Float32Array(count * stride).fill(Number.NaN);
      for (const [slot, row] of rows.entries()) all.set(row, (count - 1 - slot) * stride);
      device.put(logits, all);
      device.launch("draw_tokens", { grid: [count, 1, 1], threads: DRAW_THREADS }, values);
      const got = memory.ints(results, count * RESULT_WORDS);
      const floats = new Float32Array(got.buffer);
      const others = memory.ints(alternatives, count * MOST_ALTERNATIVES * 2);
      const otherFloats = new Float32Array(others.buffer);
      return slots.map(({ topLogprobs = 0 }, slot) => {
        const row = count - 1 - slot;
        if (got[row * 4 + 2] !== slot) throw new Error(`row ${row} is of slot ${got[row * 4 + 2]}, not ${slot}`);
        return {
          token: got[row * 4]!,
          logp: floats[row * 4 + 1]!,
          position: got[row * 4 + 3]!,
          alternatives: Array.from({ length: topLogprobs }, (_, i): [number, number] => {
            const at = (row * MOST_ALTERNATIVES + i) * 2;
            return [others[at]!, otherFloats[at + 1]!];
          }),
        };
      });
    },
    board: () => memory.ints(board, words.length),
    close: memory.close,
  };
}

/** The probability of each token under the filters, in llama.cpp's order, by sorting. */
export function distribution(
  logits: Float32Array,
  of: Drawing,
  listed: ReadonlyMap<number, number> = new Map(),
  mask?: (token: number) => boolean,
): Float64Array {
  const changed = Float64Array.from(logits);
  for (const [token, bias] of of.logitBias) changed[token]! += bias;
  for (const [token, times] of listed) {
    const was = changed[token]!;
    const repeated = was <= 0 ? was * of.repeatPenalty : was / of.repeatPenalty;
    changed[token] = repeated - (times * of.frequencyPenalty + of.presencePenalty);
  }
  let left = Array.from(changed.keys()).filter((token) => !mask || mask(token));
  left.sort((a, b) => changed[b]! - changed[a]! || a - b);
  const shares = (tokens: readonly number[], temperature = 1) => {
    const top = Math.max(...tokens.map((token) => changed[token]!));
    const raw = tokens.map((token) => Math.exp((changed[token]! - top) / temperature));
    const total = raw.reduce((a, b) => a + b, 0);
    return raw.map((each) => each / total);
  };
  const until = (tokens: readonly number[], p: number, of: readonly number[]) => {
    let sum = 0;
    const end = of.findIndex((share) => {
      sum += share;
      return sum >= p;
    });
    return end < 0 ? [...tokens] : tokens.slice(0, end + 1);
  };
  if (of.topK > 0) left = left.slice(0, of.topK);
  if (of.typical < 1) {
    const p = shares(left);
    const entropy = p.reduce((sum, each) => sum - (each > 0 ? each * Math.log(each) : 0), 0);
    const order = left
      .map((_, i) => i)
      .sort((a, b) => Math.abs(-Math.log(p[a]!) - entropy) - Math.abs(-Math.log(p[b]!) - entropy));
    const kept = until(
      order,
      of.typical,
      order.map((i) => p[i]!),
    );
    left = left.filter((_, i) => kept.includes(i));
  }
  if (of.topP < 1) left = until(left, of.topP, shares(left));
  if (of.minP > 0) left = left.filter((token) => changed[token]! >= changed[left[0]!]! + Math.log(of.minP));
  const result = new Float64Array(logits.length);
  shares(left, of.temperature).forEach((share, i) => {
    result[left[i]!] = share;
  });
  return result;
}
