/** One channel of one FLAC frame: a prediction from earlier samples, and its error. */
import type { Bits } from "./bits.ts";
import { AudioError } from "./clip.ts";

const MAX_WASTED = 32;
const FIXED = [[], [1], [2, -1], [3, -3, 1], [4, -6, 4, -1]] as const;

export function readSubframe(bits: Bits, size: number, depth: number): Float64Array {
  bits.read(1);
  const type = bits.read(6);
  const wasted = bits.read(1) === 1 ? bits.unary() + 1 : 0; // low bits that are always zero
  if (wasted >= Math.min(depth, MAX_WASTED)) throw new AudioError("A subframe of the FLAC has no bits");
  const samples = new Float64Array(size);
  const width = depth - wasted;
  if (type === 0) samples.fill(bits.signed(width));
  else if (type === 1) for (let i = 0; i < size; i++) samples[i] = bits.signed(width);
  else if (type >= 8 && type <= 12) readFixed(bits, samples, type - 8, width);
  else if (type >= 32) readLinear(bits, samples, type - 31, width);
  else throw new AudioError("A subframe of the FLAC has an unknown type");
  if (wasted > 0) for (let i = 0; i < size; i++) samples[i] = samples[i]! * 2 ** wasted;
  return samples;
}

function readFixed(bits: Bits, samples: Float64Array, order: number, width: number) {
  const first = Math.min(order, samples.length);
  for (let i = 0; i < first; i++) samples[i] = bits.signed(width);
  readResidual(bits, samples, order);
  predict(samples, FIXED[order]!, 0);
}

function readLinear(bits: Bits, samples: Float64Array, order: number, width: number) {
  if (order > samples.length) throw new AudioError("A subframe of the FLAC is shorter than its prediction order");
  for (let i = 0; i < order; i++) samples[i] = bits.signed(width);
  const precision = bits.read(4) + 1;
  const shift = bits.signed(5);
  if (precision === 16 || shift < 0) throw new AudioError("A subframe of the FLAC has an invalid prediction");
  const weights = Array.from({ length: order }, () => bits.signed(precision));
  readResidual(bits, samples, order);
  predict(samples, weights, shift);
}

/** Replaces each residual by its sample, in place. Sums stay below 2^53. */
function predict(samples: Float64Array, coefficients: readonly number[], shift: number) {
  const weights = Float64Array.from(coefficients);
  const order = weights.length;
  const scale = 2 ** -shift;
  for (let i = order; i < samples.length; i++) {
    let sum = 0;
    for (let j = 0; j < order; j++) sum += weights[j]! * samples[i - 1 - j]!;
    samples[i] = samples[i]! + Math.floor(sum * scale);
  }
}

/** Reads Rice codes in partitions, each with its own parameter. */
function readResidual(bits: Bits, samples: Float64Array, order: number) {
  const method = bits.read(2);
  if (method > 1) throw new AudioError("A subframe of the FLAC has an unknown coding");
  const parameterBits = method === 0 ? 4 : 5;
  const verbatim = 2 ** parameterBits - 1;
  const partitions = 1 << bits.read(4);
  const each = samples.length / partitions;
  if (!Number.isInteger(each) || each < order) throw new AudioError("A subframe of the FLAC has invalid partitions");
  for (let partition = 0, at = order; partition < partitions; partition++) {
    const end = (partition + 1) * each;
    const parameter = bits.read(parameterBits);
    if (parameter === verbatim) {
      const width = bits.read(5);
      for (; at < end; at++) samples[at] = bits.signed(width);
    } else
      for (; at < end; at++) {
        const quotient = bits.unary();
        const folded = quotient * 2 ** parameter + bits.read(parameter);
        samples[at] = folded % 2 === 0 ? folded / 2 : -(folded + 1) / 2;
      }
  }
}
