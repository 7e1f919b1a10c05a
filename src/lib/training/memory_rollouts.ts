/** Size and memory of the copy of a model that draws samples. Pure. */
import { estimateMemory as servingMemory } from "../gguf/memory.ts";
import type { ModelShape } from "../gguf/shape.ts";
import { MIB } from "../units.ts";
import type { Dimensions } from "./memory_graph.ts";

/** Tokens of prompts that our kernels read at once. */
export const PROMPT_ROWS = 2048;
const PAGE = 32; // tokens, as in the kernels
const CHUNK = 256; // keys of one part of attention
const CHUNK_ROWS = 16_384;
const SLICES = 8; // parts of a sum, in F32
const WORKSPACE = 64 * MIB; // of cuBLAS: ours and its own

/** Maximum completions whose keys and values are held at once; a GPU needs many to be busy. */
const MOST = { cpu: 32, cuda: 256 } as const;

/** Returns how many completions of a generation are decoded together; the others wait for a slot. */
export function rolloutSlots(generationBatchSize: number, device: keyof typeof MOST, microDivisor: number): number {
  return Math.max(1, Math.floor(Math.min(generationBatchSize, MOST[device]) / microDivisor));
}

export type RolloutSize = { contextLength: number; parallel: number };

/** The library or our kernels may draw. Which of them is known only when the device is open, so it is the larger one. */
export function rolloutMemory(shape: ModelShape, of: Dimensions, size: RolloutSize, device: "cpu" | "cuda"): number {
  const library = servingMemory(shape, size).total;
  return device === "cpu" ? library : Math.max(library, decoderMemory(of, shape.parameters, size) + WORKSPACE);
}

/** Weights in BF16, pages of keys and values, and buffers (workers/decoder/passes.ts, slot_memory.ts). */
export function decoderMemory(of: Dimensions, parameters: number, { contextLength, parallel }: RolloutSize): number {
  const { layers, width, forward, heads, keyHeads, headLength, vocab } = of;
  const inner = heads * headLength;
  const qkv = inner + 2 * keyHeads * headLength;
  const pages = parallel * Math.ceil(contextLength / PAGE);
  const keys = pages * PAGE * layers * 2 * keyHeads * headLength * 2;
  const rows = Math.max(parallel, Math.min(PROMPT_ROWS, parallel * contextLength));
  const parts = Math.max(SLICES * Math.max(qkv, width), forward) * 4;
  const row = width * 8 + qkv * 2 + inner * 4 + forward * 2 + parts;
  const chunkRows = Math.max(parallel * Math.ceil(contextLength / CHUNK) * 2, CHUNK_ROWS);
  const chunks = chunkRows * (inner * 4 + heads * 8);
  const slot = vocab * 4 + vocab / 8 + contextLength * 12 + 6144;
  return parameters * 2 + keys + rows * row + chunks + (parallel + 128) * slot;
}
