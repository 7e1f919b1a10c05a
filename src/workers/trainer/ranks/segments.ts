/** A sum of gradients passes from rank to rank in segments, so that all ranks add at the same time. Pure. */
import type { Part } from "./types.ts";

export const SEGMENT_FLOATS = 1 << 18;

export function* segmentsOf(length: number) {
  for (let from = 0; from < length; from += SEGMENT_FLOATS) yield { from, to: Math.min(length, from + SEGMENT_FLOATS) };
}

/** Adds what lies in both. JavaScript rounds each sum of two F32 numbers as a processor does. */
export function add(sum: Float32Array, from: number, { at, values }: Part) {
  const begin = Math.max(from, at);
  const end = Math.min(from + sum.length, at + values.length);
  for (let i = begin; i < end; i++) sum[i - from]! += values[i - at]!;
}
