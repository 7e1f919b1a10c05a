/**
 * Estimates a training's memory on its device before anything is loaded. Pure. The trainer takes its sizes from here
 * too, so that the estimate holds: tokens of a micro-batch, and recomputation of layers. Graphs and weights of models
 * on the CPU are within 15 %.
 */

import type { ModelShape } from "../gguf/shape.ts";
import { PACKED_TYPES } from "../gguf/types.ts";
import { MIB } from "../units.ts";
import { isRolled, type Method, usesReference } from "./fields.ts";
import { type LoraSettings, MODULES, type Module } from "./lora.ts";
import { divergenceOf } from "./loss/divergence.ts";
import { activationBytes, type Dimensions, fusesHeads, keptBytes, type Micro, traitsOf } from "./memory_graph.ts";
import { rolloutMemory, rolloutSlots } from "./memory_rollouts.ts";

export type MemoryPlan = {
  method: Method;
  lora: LoraSettings | null;
  /** Resolved hyperparameters. */
  hyperparameters: Readonly<Record<string, unknown>>;
  microDivisor: number;
  device: "cpu" | "cuda";
  /** The model that scores what a student writes. */
  teacher?: ModelShape | undefined;
  /** Processes that train together, each on its device. Default 1. The estimate is that of one of them. */
  ranks?: number;
};

/** In bytes. */
export type TrainingMemory = {
  /** The model, and its transposed copy on the device. */
  weights: number;
  /** Trained weights beyond the model itself, gradients and moments. */
  training: number;
  activations: number;
  /** A second copy that samples, with its keys and values. */
  rollouts: number;
  /** The base model, if there is no adapter to switch off, and a teacher. */
  reference: number;
  total: number;
};

const LIMITS = {
  cpu: { tokens: 1024, kept: 512 * MIB, scores: 128 * MIB, table: 256 * MIB, fixed: 64 * MIB },
  cuda: { tokens: 8192, kept: 12_288 * MIB, scores: 1024 * MIB, table: 1024 * MIB, fixed: 1024 * MIB },
} as const;
/** Graphs of other shapes are kept while all together take at most this many times the largest. */
export const GRAPHS_KEPT = 1.5;
const PROMPT_TOKENS = 512; // an assumption, because prompts are not counted yet

/** Tokens of a micro-batch. */
export const microTokens = (device: MemoryPlan["device"], microDivisor: number) =>
  Math.max(1, Math.floor(LIMITS[device].tokens / microDivisor));

/** True if frozen matrices are also stored transposed: transposing one takes as long as a small product with it. */
export const holdsTurned = (device: MemoryPlan["device"], weightBytes: number) =>
  device === "cuda" || weightBytes <= 1024 * MIB;

/** `compares`: a divergence from a teacher needs several tables of probabilities at once. */
type On = { device: MemoryPlan["device"]; microDivisor: number; compares?: boolean };
const COMPARED_TABLES = 4;

/** Returns queries per attention block and tokens per head chunk: as few equal parts as fit. */
export function blocksFor(of: Dimensions, { tokens, rows, scored }: Pick<Micro, "tokens" | "rows" | "scored">, on: On) {
  const { scores, table } = LIMITS[on.device];
  const query = tokens * rows * of.heads * 4; // bytes of one query's scores, in all rows and heads
  return {
    attentionBlock: partOf(tokens, scores / on.microDivisor / query),
    headChunk: partOf(scored, table / (on.compares ? COMPARED_TABLES : 1) / on.microDivisor / (of.vocab * 4)),
  };
}

const SMALLEST_PART = 32;
function partOf(count: number, most: number): number {
  const parts = Math.ceil(count / Math.max(SMALLEST_PART, Math.floor(most)));
  return Math.ceil(count / parts);
}

/** Layers are computed again in the backward pass only if keeping their results takes too much memory. */
export const recomputes = (of: Dimensions, micro: Omit<Micro, "recomputes">, { device, microDivisor }: On) =>
  keptBytes(of, micro) > LIMITS[device].kept / microDivisor;

export function estimateMemory(shape: ModelShape, plan: MemoryPlan): TrainingMemory {
  const { device, microDivisor, lora, method, hyperparameters } = plan;
  const of = dimensionsOf(shape);
  const trained = lora ? adapterParameters(of, lora) : shape.parameters;
  const packs = isPacked(shape) || plan.hyperparameters["load_in_4bit"] === true;
  const frozen = packs && isFused(shape, of, plan) ? packedBytes(shape, of) : frozenBytes(shape, device);
  const weights = lora ? frozen : shape.parameters * 4;
  const largest = lora ? 0 : of.vocab * of.width * 4;
  const micro = microOf(shape, of, plan);
  const held = heldBytes(shape, plan, trained * 4);
  const training = trainedBytes(plan) * trained + stepCopies(plan) * largest + held;
  const isShared = (plan.ranks ?? 1) > 1;
  const apart = isShared ? Math.ceil(micro.scored / micro.headChunk) * largest : 0; // gradients of the output layer
  const activations = GRAPHS_KEPT * (activationBytes(of, micro) + apart);
  const needsReference = !lora && usesReference(method, numberOf(plan, "beta", 0));
  const { teacher } = plan;
  const isHard = hyperparameters["distillation_loss"] === "hard"; // the teacher draws, and scores nothing
  const frozenModels = [...(needsReference ? [shape] : []), ...(teacher && !isHard ? [teacher] : [])];
  const reference = frozenModels.reduce((sum, each) => sum + scoringBytes(each, plan), 0);
  const drawing = isHard && teacher ? teacher : shape;
  const rollouts = isRolled(method) ? rolloutBytes(drawing, dimensionsOf(drawing), plan) : 0;
  const { fixed } = LIMITS[device];
  const rest = device === "cuda" ? fixed : Math.ceil(fixed / microDivisor); // a context does not get smaller
  const total = weights + training + activations + rollouts + reference + rest;
  return { weights, training, activations, rollouts, reference, total };
}

const BYTE_MOMENTS = 2 * (1 + 4 / 256); // a byte for each, and a number in F32 for each block

const hasByteMoments = ({ hyperparameters }: MemoryPlan) => hyperparameters["optim"] === "adamw_8bit";

/** Bytes of one trained number: an adapter itself, the gradient and two moments. */
const trainedBytes = (plan: MemoryPlan) => (plan.lora ? 8 : 4) + (hasByteMoments(plan) ? BYTE_MOMENTS : 8);

/** The step squares one tensor at a time, and scales it unless the kernel of 8-bit moments does so. */
const stepCopies = (plan: MemoryPlan) => (hasByteMoments(plan) ? 1 : 2);

/**
 * Ranks after the first hold the gradients of all their micro-batches until they add them, in main memory. That counts
 * only if main memory is the device.
 */
function heldBytes(shape: ModelShape, plan: MemoryPlan, gradient: number): number {
  const { ranks = 1, device, microDivisor } = plan;
  if (ranks === 1 || device !== "cpu") return 0;
  const together = plan.method === "dpo" || plan.method === "orpo" ? 2 : 1;
  const batch = numberOf(plan, "per_device_train_batch_size", 8) * numberOf(plan, "gradient_accumulation_steps", 1);
  const tokens = together * batch * longestOf(shape, plan);
  return gradient * Math.ceil(tokens / microTokens(device, microDivisor) / ranks);
}

/** Types that a GPU computes with; others become BF16. */
const ON_CUDA = ["F32", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"];

/** The model, and its copy that is transposed or that the kernels read. */
function frozenBytes(shape: ModelShape, device: MemoryPlan["device"]): number {
  const { weight_bytes, parameters, quantization } = shape;
  const share = traitsOf(shape.architecture).hasExperts ? denseParameters(shape) / parameters : 1; // of the copy
  if (device === "cpu") return weight_bytes * (holdsTurned(device, weight_bytes) ? 1 + share : 1);
  const half = parameters * 2;
  return (
    (ON_CUDA.includes(quantization) ? weight_bytes : half) + share * (quantization === "F32" ? weight_bytes : half)
  );
}

/** A model that only scores: the model itself, and the graphs of its passes, which keep nothing of a layer but its result. */
function scoringBytes(shape: ModelShape, plan: MemoryPlan): number {
  const of = dimensionsOf(shape);
  const micro = { ...microOf(shape, of, plan), trainsAll: false, recomputes: true };
  return frozenBytes(shape, plan.device) + GRAPHS_KEPT * activationBytes({ ...of, layers: 1 }, micro);
}

/** Files named Q4_K_M have matrices in Q4_K, most of them. */
const isPacked = ({ quantization }: ModelShape) => PACKED_TYPES.some((type) => quantization.startsWith(type));

const NF4_BYTES = 36 / 64; // of one weight

/** The model as in its file, or its layers in NF4, and room for the largest matrices of a layer in BF16: gate and up. */
function packedBytes(shape: ModelShape, of: Dimensions): number {
  const { width, forward, heads, keyHeads, headLength, layers } = of;
  const room = 2 * 2 * width * forward;
  if (isPacked(shape)) return shape.weight_bytes + room;
  const matrices = layers * width * (2 * (heads + keyHeads) * headLength + 3 * forward);
  return matrices * NF4_BYTES + (shape.parameters - matrices) * 2 + room;
}

/** True if our own kernels compute the passes. */
function isFused(shape: ModelShape, of: Dimensions, plan: MemoryPlan): boolean {
  const isExact = shape.quantization === "F32" && plan.hyperparameters["load_in_4bit"] !== true;
  if (!of.canFuse || plan.device !== "cuda" || plan.lora === null || isExact) return false;
  if (divergenceOf(plan.hyperparameters) !== null) return false;
  return numberOf(plan, "neftune_noise_alpha", 0) === 0 && fusesHeads(of.headLength, of);
}

/** The needs of NF4, for messages. */
export const IN_4_BIT =
  "NF4 needs lora, an NVIDIA GPU, an architecture that Verk's own kernels train, and no neftune_noise_alpha. A quantized file as base_model needs less memory everywhere";

/** True if the layers of the model can be NF4 on the device. */
export const canBe4Bit = (shape: ModelShape, plan: Omit<MemoryPlan, "microDivisor">) =>
  isFused(shape, dimensionsOf(shape), { ...plan, microDivisor: 1 });

/** The tables and the attention: everything but the experts. */
function denseParameters(shape: ModelShape): number {
  const attention = 2 * (shape.heads + shape.kv_heads) * shape.key_length;
  return shape.embedding_length * (2 * shape.vocab_size + shape.layers * attention);
}

function rolloutBytes(shape: ModelShape, of: Dimensions, plan: MemoryPlan): number {
  const batch = numberOf(plan, "generation_batch_size", numberOf(plan, "per_device_train_batch_size", 8));
  const parallel = rolloutSlots(batch, plan.device, plan.microDivisor);
  return rolloutMemory(shape, of, { contextLength: longestOf(shape, plan), parallel }, plan.device);
}

function microOf(shape: ModelShape, of: Dimensions, plan: MemoryPlan): Micro {
  const { device, microDivisor, lora, hyperparameters } = plan;
  const longest = longestOf(shape, plan);
  const together = plan.method === "dpo" || plan.method === "orpo" ? 2 : 1;
  const pieces = numberOf(plan, "per_device_train_batch_size", 8) * together;
  const most = microTokens(device, microDivisor);
  const fused = isFused(shape, of, plan);
  const oneRow = Math.max(together * longest, Math.min(most, pieces * longest));
  const rows = Math.max(together, Math.min(Math.floor(most / longest), pieces));
  const sizes = fused ? { tokens: oneRow, rows: 1, scored: oneRow } : { tokens: longest, rows, scored: longest * rows };
  const micro = {
    ...sizes,
    ...blocksFor(of, sizes, { device, microDivisor, compares: divergenceOf(hyperparameters) !== null }),
    trainsAll: lora === null,
    weightBytes: shape.weight_bytes / shape.parameters,
    isFused: fused,
    holdsTurned: holdsTurned(device, shape.weight_bytes),
  };
  return { ...micro, recomputes: hyperparameters.gradient_checkpointing !== false && recomputes(of, micro, plan) };
}

/** Returns the tokens of the longest possible sequence. */
function longestOf(shape: ModelShape, plan: MemoryPlan): number {
  const most = numberOf(plan, "max_length", shape.context_length);
  const answer = numberOf(plan, "max_completion_length", 512);
  const written = Math.max(answer, numberOf(plan, "max_rollout_tokens", 0));
  const wanted = isRolled(plan.method) ? written + PROMPT_TOKENS : most;
  return Math.max(2, Math.min(wanted, shape.context_length));
}

function numberOf({ hyperparameters }: MemoryPlan, name: string, otherwise: number): number {
  const value = hyperparameters[name];
  return typeof value === "number" ? value : otherwise;
}

/** Inputs and outputs of the matrices that can have an adapter. */
function adapterParameters(of: Dimensions, { r, target_modules }: LoraSettings): number {
  const { width, forward } = of;
  const [q, kv] = [of.heads * of.headLength, of.keyHeads * of.headLength];
  const sizes: Record<Module, number> = {
    q_proj: width + q,
    k_proj: width + kv,
    v_proj: width + kv,
    o_proj: q + width,
    gate_proj: width + forward,
    up_proj: width + forward,
    down_proj: forward + width,
  };
  const isHere = (name: Module) => !of.hasExperts || MODULES[name].startsWith("attn_"); // experts have no adapters
  return of.layers * r * target_modules.filter(isHere).reduce((sum, name) => sum + sizes[name], 0);
}

/**
 * A shape does not state a layer's inner width, nor if the embeddings are the output layer. Both follow from its size.
 */
export function dimensionsOf(shape: ModelShape): Dimensions {
  const {
    layers,
    embedding_length: width,
    heads,
    kv_heads: keyHeads,
    key_length: headLength,
    vocab_size: vocab,
  } = shape;
  const [q, kv] = [heads * headLength, keyHeads * headLength];
  const traits = traitsOf(shape.architecture);
  const norms = (traits.normsResults ? 4 : 2) * width + (traits.normsHeads ? 2 * headLength : 0);
  const biases = shape.architecture === "qwen2" ? q + 2 * kv : 0;
  const rest = shape.parameters - width - layers * (norms + biases + 2 * width * (q + kv));
  const inside = (tables: number) => (rest - tables * vocab * width) / (3 * width * layers);
  const isWhole = (x: number) => x > 0 && Math.abs(x - Math.round(x)) < 0.01; // rotation factors may be included too
  const candidates = [inside(1), inside(2)].filter(isWhole);
  const usual = candidates.find((x) => Math.round(x) % 32 === 0) ?? candidates[0];
  const all = Math.max(1, Math.round(usual ?? inside(1)));
  const dimensions = { layers, width, heads, keyHeads, headLength, forward: all, vocab, ...traits };
  if (!traits.hasExperts) return dimensions;
  const { used, count } = shape.experts ?? { used: 1, count: 1 }; // unknown: all of them, to be safe
  return { ...dimensions, forward: Math.ceil((all * used) / count), mixture: { used, forward: all } };
}
