/** Reads the words that the drawing kernel wrote. Pure. */
import { MOST_ALTERNATIVES, RESULT_WORDS } from "../../../native/cuda/decode/kernels.ts";
import type { Sequence } from "../sequence.ts";
import type { DrawnToken } from "../types.ts";

export type Row = { sequence: Sequence; last: boolean };

const intsOf = (bytes: Uint8Array) => new Int32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);

function alternativesOf(words: Int32Array, row: number, count: number): (readonly [number, number])[] {
  const floats = new Float32Array(words.buffer, words.byteOffset, words.length);
  return Array.from({ length: Math.min(count, MOST_ALTERNATIVES) }, (_, i) => {
    const at = (row * MOST_ALTERNATIVES + i) * 2;
    return [words[at]!, floats[at + 1]!] as const;
  });
}

/** Returns the token that each row drew, and its log-probabilities as far as its sequence wants them. */
export function readResults(results: Uint8Array, alternatives: Uint8Array | null) {
  const words = intsOf(results);
  const floats = new Float32Array(words.buffer, words.byteOffset, words.length);
  const others = alternatives ? intsOf(alternatives) : null;
  const tokenOf = (row: number) => words[row * RESULT_WORDS]!;
  const drawn = ({ sequence, last }: Row, row: number): DrawnToken => {
    const token = { sequence: sequence.id, token: tokenOf(row), done: last };
    const wanted = sequence.admission.drawing.topLogprobs;
    if (wanted === undefined) return token;
    const logp = floats[row * RESULT_WORDS + 1]!;
    return { ...token, logp, ...(others && wanted > 0 ? { alternatives: alternativesOf(others, row, wanted) } : {}) };
  };
  return { tokenOf, drawn };
}
