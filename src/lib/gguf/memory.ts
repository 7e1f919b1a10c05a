import type { ModelShape } from "./shape.ts";

/** Bytes. `compute` is what the graph needs beside weights and cache. */
export type MemoryEstimate = { weights: number; kv: number; compute: number; total: number };

type Use = { contextLength: number; parallel: number };

const F16_BYTES = 2;
const F32_BYTES = 4;
const UBATCH_TOKENS = 512; // of one physical batch: llama.cpp's default
const FIXED_BYTES = 16 * 2 ** 20; // graphs, buffers of the scheduler

/**
 * What a model takes on its device. Pure: placement is decided with it before anything is loaded, and corrected by
 * what the worker reports after. Measured on the CPU against contexts of 512 to 8192 tokens × 1 to 4 sequences, cache
 * and compute together are met within 5 % from 50 MiB on. Not counted: attention without the fused kernel, whose
 * scores take heads × context more, and the state of recurrent layers.
 */
export function estimateMemory(shape: ModelShape, { contextLength, parallel }: Use): MemoryEstimate {
  const cells = contextLength * parallel;
  const kv = cells * shape.layers * shape.kv_heads * (shape.key_length + shape.value_length) * F16_BYTES;
  const tokens = Math.min(UBATCH_TOKENS, cells);
  const logits = (tokens + parallel) * shape.vocab_size * F32_BYTES;
  const activations = tokens * F32_BYTES * (8 * shape.embedding_length + 2 * shape.heads * shape.key_length);
  const mask = tokens * contextLength * F32_BYTES; // of one sequence at a time
  const compute = logits + activations + mask + FIXED_BYTES;
  return { weights: shape.weight_bytes, kv, compute, total: shape.weight_bytes + kv + compute };
}
