/**
 * Models of given shapes with random weights, written in seconds: what they say does not matter, what they cost does.
 */
import { closeSync, openSync, writeSync } from "node:fs";
import { TENSOR_TYPES } from "../../src/lib/gguf/types.ts";
import { type BlockType, randomBlocks } from "./blocks.ts";

export type ShapeOf = {
  arch: "llama" | "qwen2" | "qwen3";
  vocab: number;
  width: number;
  layers: number;
  heads: number;
  keyHeads: number;
  head: number;
  forward: number;
  tied: boolean;
  /** Type of the matrices (default BF16). Q4_K_M is a mix, as in files of this name. */
  type?: "BF16" | "F16" | "Q8_0" | "Q4_K_M";
};

export const SHAPES = {
  "32B": {
    arch: "qwen2",
    vocab: 152_064,
    width: 5120,
    layers: 64,
    heads: 40,
    keyHeads: 8,
    head: 128,
    forward: 27_648,
    tied: false,
  },
  "8B": {
    arch: "llama",
    vocab: 128_256,
    width: 4096,
    layers: 32,
    heads: 32,
    keyHeads: 8,
    head: 128,
    forward: 14_336,
    tied: true,
  },
  "1B": {
    arch: "llama",
    vocab: 128_256,
    width: 2048,
    layers: 16,
    heads: 32,
    keyHeads: 8,
    head: 64,
    forward: 8192,
    tied: true,
  },
  "0.5B": {
    arch: "qwen2",
    vocab: 151_936,
    width: 896,
    layers: 24,
    heads: 14,
    keyHeads: 2,
    head: 64,
    forward: 4864,
    tied: true,
  },
} as const satisfies Record<string, ShapeOf>;

type TypeName = "F32" | "F16" | "BF16" | BlockType;
type Planned = { name: string; dims: number[]; type: TypeName };

const numberOf = new Map([...TENSOR_TYPES].map(([number, { name }]) => [name, number]));
const sizeOf = new Map([...TENSOR_TYPES.values()].map((type) => [type.name, type]));

/** The more important half of a Q4_K_M file is in Q6_K. */
function matrixType({ type = "BF16", tied }: ShapeOf, name: string): TypeName {
  if (type !== "Q4_K_M") return type;
  if (name === "output" || (tied && name === "token_embd")) return "Q6_K";
  return /^blk\.\d*[02468]\.(attn_v|ffn_down)$/.test(name) ? "Q6_K" : "Q4_K";
}

function planOf(s: ShapeOf): Planned[] {
  const all: Planned[] = [];
  const matrix = (name: string, ...dims: number[]) =>
    all.push({ name: `${name}.weight`, dims, type: matrixType(s, name) });
  const vector = (name: string, length: number) => all.push({ name, dims: [length], type: "F32" });
  matrix("token_embd", s.width, s.vocab);
  if (!s.tied) matrix("output", s.width, s.vocab);
  for (let i = 0; i < s.layers; i++) {
    const at = (part: string) => `blk.${i}.${part}`;
    vector(`${at("attn_norm")}.weight`, s.width);
    for (const [part, count] of [["q", s.heads] as const, ["k", s.keyHeads] as const, ["v", s.keyHeads] as const]) {
      matrix(at(`attn_${part}`), s.width, count * s.head);
      if (s.arch === "qwen2") vector(`${at(`attn_${part}`)}.bias`, count * s.head);
      if (s.arch === "qwen3" && part !== "v") vector(`${at(`attn_${part}_norm`)}.weight`, s.head);
    }
    matrix(at("attn_output"), s.heads * s.head, s.width);
    vector(`${at("ffn_norm")}.weight`, s.width);
    matrix(at("ffn_gate"), s.width, s.forward);
    matrix(at("ffn_up"), s.width, s.forward);
    matrix(at("ffn_down"), s.forward, s.width);
  }
  vector("output_norm.weight", s.width);
  return all;
}

const u32 = (value: number) => Buffer.from(Uint32Array.of(value).buffer);
const u64 = (value: number) => Buffer.from(BigUint64Array.of(BigInt(value)).buffer);
const f32 = (value: number) => Buffer.from(Float32Array.of(value).buffer);
const text = (value: string) => Buffer.concat([u64(Buffer.byteLength(value)), Buffer.from(value)]);
const padded = (bytes: number) => Math.ceil(bytes / 32) * 32;
const elementsOf = ({ dims }: Planned) => dims.reduce((a, b) => a * b, 1);
function bytesOf(tensor: Planned): number {
  const { block, bytes } = sizeOf.get(tensor.type)!;
  return (elementsOf(tensor) / block) * bytes;
}

function headerOf(s: ShapeOf, planned: readonly Planned[]): Buffer {
  const whole = (key: string, value: number) => [text(`${s.arch}.${key}`), u32(4), u32(value)];
  const real = (key: string, value: number) => [text(`${s.arch}.${key}`), u32(6), f32(value)];
  const keys = [
    [text("general.architecture"), u32(8), text(s.arch)],
    whole("context_length", 4096),
    whole("vocab_size", s.vocab),
    whole("embedding_length", s.width),
    whole("block_count", s.layers),
    whole("attention.head_count", s.heads),
    whole("attention.head_count_kv", s.keyHeads),
    whole("attention.key_length", s.head),
    whole("feed_forward_length", s.forward),
    real("attention.layer_norm_rms_epsilon", 1e-5),
    real("rope.freq_base", 500_000),
  ];
  const parts = [Buffer.from("GGUF"), u32(3), u64(planned.length), u64(keys.length), ...keys.flat()];
  let offset = 0;
  for (const tensor of planned) {
    parts.push(
      text(tensor.name),
      u32(tensor.dims.length),
      ...tensor.dims.map(u64),
      u32(numberOf.get(tensor.type)!),
      u64(offset),
    );
    offset += padded(bytesOf(tensor));
  }
  const head = Buffer.concat(parts);
  return Buffer.concat([head, Buffer.alloc(padded(head.length) - head.length)]);
}

function encoded(values: Float32Array, type: "F32" | "F16" | "BF16"): Float32Array | Float16Array | Uint16Array {
  if (type === "F32") return values;
  if (type === "F16") return new Float16Array(values);
  return Uint16Array.from(new Uint32Array(values.buffer, 0, values.length), (bits) => bits >>> 16);
}

/** Bytes that a tensor repeats. */
function sourceOf(tensor: Planned, noise: Float32Array): Uint8Array {
  const { name, type, dims } = tensor;
  const count = Math.min(noise.length, elementsOf(tensor));
  const deviation = Math.sqrt(1 / (dims[0] as number));
  if (type === "Q8_0" || type === "Q4_K" || type === "Q6_K")
    return randomBlocks(type, count / sizeOf.get(type)!.block, deviation);
  const center = name.endsWith("norm.weight") ? 1 : 0;
  const spread = type === "F32" ? 0.25 : Math.sqrt(3) * deviation;
  const values = noise.subarray(0, count).map((x) => center + x * spread);
  return new Uint8Array(encoded(values, type).buffer);
}

/** Weights are uniform, of the deviation that keeps activations of order one; norms lie around one. */
export function writeModel(path: string, shape: ShapeOf) {
  const planned = planOf(shape);
  const fd = openSync(path, "w");
  writeSync(fd, headerOf(shape, planned));
  const noise = new Float32Array(1 << 20);
  let state = 1;
  for (let i = 0; i < noise.length; i++) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    noise[i] = state / 2 ** 31 - 1;
  }
  for (const tensor of planned) {
    const bytes = bytesOf(tensor);
    const source = sourceOf(tensor, noise);
    const { bytes: step } = sizeOf.get(tensor.type)!;
    let from = ((tensor.name.length * 7919) % (source.length / step)) * step; // equal sizes are not equal matrices
    for (let left = bytes; left > 0; from = 0) {
      const piece = source.subarray(from, from + Math.min(left, source.length - from));
      writeSync(fd, piece);
      left -= piece.length;
    }
    writeSync(fd, new Uint8Array(padded(bytes) - bytes));
  }
  closeSync(fd);
}
