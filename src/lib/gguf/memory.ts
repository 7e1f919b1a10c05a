import type { ModelShape } from "./shape.ts";

/** In bytes. `compute` is the graph's memory beyond weights and cache. */
export type MemoryEstimate = { weights: number; kv: number; compute: number; total: number };

/** Numbers of keys and values: of 16 bits, or of 8 with a scale of 16 for 32 of them. */
export const KV_TYPES = ["f16", "q8_0"] as const;
export type KvType = (typeof KV_TYPES)[number];

/** `kvType` default: f16. */
type Use = { contextLength: number; parallel: number; kvType?: KvType };

const KV_BYTES = { f16: 2, q8_0: 34 / 32 } as const;
const F32_BYTES = 4;
const UBATCH_TOKENS = 512; // size of one physical batch: llama.cpp's default
const FIXED_BYTES = 16 * 2 ** 20; // graphs and buffers of the scheduler

/**
 * Estimates a model's memory on its device. Pure: it decides placement before loading, and the worker's report corrects
 * it later. Measured on the CPU with contexts of 512 to 8192 tokens × 1 to 4 sequences: cache and compute together are
 * within 5 % from 50 MiB on. Not counted: attention without the fused kernel, whose scores take heads × context more,
 * and the state of recurrent layers.
 */
export function estimateMemory(shape: ModelShape, { contextLength, parallel, kvType = "f16" }: Use): MemoryEstimate {
  if (shape.encoder) return estimateEncoder(shape, contextLength);
  const cells = contextLength * parallel;
  const kv = cells * shape.layers * shape.kv_heads * (shape.key_length + shape.value_length) * KV_BYTES[kvType];
  const tokens = Math.min(UBATCH_TOKENS, cells);
  const logits = (tokens + parallel) * shape.vocab_size * F32_BYTES;
  const activations = tokens * F32_BYTES * (8 * shape.embedding_length + 2 * shape.heads * shape.key_length);
  const mask = tokens * contextLength * F32_BYTES; // for one sequence at a time
  const compute = logits + activations + mask + FIXED_BYTES;
  return { weights: shape.weight_bytes, kv, compute, total: shape.weight_bytes + kv + compute };
}

/** An encoder has no cache and computes no logits. One call holds a whole context, and its mask has each pair of tokens. */
function estimateEncoder(shape: ModelShape, contextLength: number): MemoryEstimate {
  const tokens = Math.max(UBATCH_TOKENS, Math.min(contextLength, shape.context_length));
  const activations = tokens * F32_BYTES * (8 * shape.embedding_length + 2 * shape.heads * shape.key_length);
  const compute = activations + tokens * tokens * F32_BYTES + FIXED_BYTES;
  return { weights: shape.weight_bytes, kv: 0, compute, total: shape.weight_bytes + compute };
}
