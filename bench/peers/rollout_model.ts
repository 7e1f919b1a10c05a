/** A model of the shape of Qwen2.5-0.5B with random weights, written in seconds: what it says does not matter. */
import { closeSync, openSync, writeSync } from "node:fs";
import { float32Value, ggufChunks, type Metadata, type TensorSource, textValue } from "../../src/lib/gguf/write.ts";

export type RolloutShape = {
  vocab: number;
  width: number;
  layers: number;
  heads: number;
  keyHeads: number;
  forward: number;
};
export const HALF_BILLION: RolloutShape = {
  vocab: 151_936,
  width: 896,
  layers: 24,
  heads: 14,
  keyHeads: 2,
  forward: 4864,
};
export const SMALL: RolloutShape = { vocab: 2048, width: 256, layers: 4, heads: 4, keyHeads: 2, forward: 1024 };

/** Q4_K_M mixes types as llama.cpp's quantizer does: Q6_K in the head, and in half of the values and last products. */
export type RolloutType = "F16" | "BF16" | "Q8_0" | "Q4_K" | "Q4_K_M";
const FILE_TYPES = { F16: 1, BF16: 32, Q8_0: 7, Q4_K: 14, Q4_K_M: 15 } as const;
type TensorType = keyof typeof BLOCKS;
const BLOCKS = {
  F16: { values: 1, bytes: 2 },
  BF16: { values: 1, bytes: 2 },
  Q8_0: { values: 32, bytes: 34 },
  Q4_K: { values: 256, bytes: 144 },
  Q6_K: { values: 256, bytes: 210 },
} as const;

const POOL = 1 << 20; // values; tensors repeat them
const CONTROL = 3;

/** `echo`: no layer changes what it is given, so the most likely token is the last one again. It costs the same time. */
export async function writeRolloutModel(path: string, shape: RolloutShape, type: RolloutType, echo = false) {
  const fd = openSync(path, "w");
  for await (const chunk of ggufChunks(metadataOf(shape, type), tensorsOf(shape, type, echo))) writeSync(fd, chunk);
  closeSync(fd);
}

function metadataOf({ vocab, width, layers, heads, keyHeads, forward }: RolloutShape, type: RolloutType): Metadata {
  const whole = (value: number) => ({ type: "uint32", value }) as const;
  const tokens = Array.from({ length: vocab }, (_, i) =>
    i < 256 ? String.fromCodePoint(i < 33 || i > 126 ? 256 + i : i) : `w${i}Ġ`,
  );
  const types = tokens.map((_, i) => (i === vocab - 1 ? CONTROL : 1));
  return new Map<string, Metadata extends ReadonlyMap<string, infer V> ? V : never>([
    ["general.architecture", textValue("qwen2")],
    ["general.file_type", whole(FILE_TYPES[type])],
    ["qwen2.context_length", whole(32_768)],
    ["qwen2.embedding_length", whole(width)],
    ["qwen2.block_count", whole(layers)],
    ["qwen2.feed_forward_length", whole(forward)],
    ["qwen2.attention.head_count", whole(heads)],
    ["qwen2.attention.head_count_kv", whole(keyHeads)],
    ["qwen2.attention.layer_norm_rms_epsilon", float32Value(1e-6)],
    ["qwen2.rope.freq_base", float32Value(1e6)],
    ["tokenizer.ggml.model", textValue("gpt2")],
    ["tokenizer.ggml.pre", textValue("qwen2")],
    ["tokenizer.ggml.tokens", { type: "array", of: "string", values: tokens }],
    ["tokenizer.ggml.token_type", { type: "array", of: "int32", values: types }],
    ["tokenizer.ggml.merges", { type: "array", of: "string", values: ["a b"] }],
    ["tokenizer.ggml.eos_token_id", whole(vocab - 1)],
    ["tokenizer.ggml.add_bos_token", { type: "bool", value: false }],
  ]);
}

function tensorsOf(
  { vocab, width, layers, heads, keyHeads, forward }: RolloutShape,
  type: RolloutType,
  echo: boolean,
): TensorSource[] {
  const head = width / heads;
  const plain = type === "Q4_K_M" ? "Q4_K" : type;
  const pools = new Map(
    [plain, ...(type === "Q4_K_M" ? (["Q6_K"] as const) : [])].map((each) => [each, noiseOf(each, width)]),
  );
  const zeros = new Uint8Array(POOL);
  const eighth = Math.floor(layers / 8);
  const isFine = (name: string) => {
    if (type !== "Q4_K_M" || name === "token_embd") return type === "Q4_K_M";
    const layer = Number(/^blk\.(\d+)\.(?:attn_v|ffn_down)$/.exec(name)?.[1] ?? Number.NaN);
    return layer < eighth || layer >= 7 * eighth || (layer - eighth) % 3 === 2;
  };
  const matrix = (name: string, ...dims: number[]): TensorSource => {
    const type = isFine(name) ? "Q6_K" : plain;
    const noise = pools.get(type)!;
    const block = BLOCKS[type];
    const bytes = (dims.reduce((a, b) => a * b, 1) / block.values) * block.bytes;
    const isResult = name.endsWith("attn_output") || name.endsWith("ffn_down");
    return { name: `${name}.weight`, type, dims, content: () => repeated(echo && isResult ? zeros : noise, bytes) };
  };
  const vector = (name: string, length: number, value: number): TensorSource => ({
    name,
    type: "F32",
    dims: [length],
    content: () => [new Uint8Array(new Float32Array(length).fill(value).buffer)],
  });
  const layer = (i: number) => {
    const at = (part: string) => `blk.${i}.${part}`;
    return [
      vector(at("attn_norm.weight"), width, 1),
      ...(["q", "k", "v"] as const).flatMap((part) => {
        const outputs = (part === "q" ? heads : keyHeads) * head;
        return [matrix(at(`attn_${part}`), width, outputs), vector(at(`attn_${part}.bias`), outputs, 0)];
      }),
      matrix(at("attn_output"), heads * head, width),
      vector(at("ffn_norm.weight"), width, 1),
      matrix(at("ffn_gate"), width, forward),
      matrix(at("ffn_up"), width, forward),
      matrix(at("ffn_down"), forward, width),
    ];
  };
  return [
    matrix("token_embd", width, vocab), // the output layer too
    vector("output_norm.weight", width, 1),
    ...Array.from({ length: layers }, (_, i) => layer(i)).flat(),
  ];
}

/** Uniform, of a deviation that keeps activations of order one. */
function noiseOf(type: TensorType, width: number): Uint8Array {
  const spread = Math.sqrt(3 / width);
  let state = 1;
  const values = Float32Array.from({ length: POOL - 7 }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return (state / 2 ** 31 - 1) * spread;
  });
  if (type === "Q8_0" || type === "Q4_K" || type === "Q6_K") return quantizedNoise(type, values, spread);
  if (type === "F16") return new Uint8Array(new Float16Array(values).buffer);
  return new Uint8Array(Uint16Array.from(new Uint32Array(values.buffer), (bits) => bits >>> 16).buffer);
}

/** Blocks whose quants are random. Their scales are alike, and their mean is zero. */
function quantizedNoise(type: "Q8_0" | "Q4_K" | "Q6_K", random: Float32Array, spread: number): Uint8Array {
  const block = BLOCKS[type];
  const count = Math.floor(random.length / block.values);
  const bytes = new Uint8Array(count * block.bytes);
  const half = (value: number) => new Uint16Array(new Float16Array([value]).buffer)[0] as number;
  const view = new DataView(bytes.buffer);
  const byteOf = (i: number) => ((random[i % random.length]! / spread + 1) * 128) & 255;
  for (let i = 0; i < count; i++) {
    const at = i * block.bytes;
    for (let j = 0; j < block.bytes; j++) bytes[at + j] = byteOf(i * block.values + j);
    if (type === "Q6_K") {
      bytes.fill(32, at + 192, at + 208); // scales of 16
      view.setUint16(at + 208, half(spread / 1024), true);
      continue;
    }
    view.setUint16(at, half(type === "Q8_0" ? spread / 128 : spread / 256), true);
    if (type === "Q4_K") {
      view.setUint16(at + 2, half((7.5 * spread) / 256), true);
      bytes.fill(0x20, at + 4, at + 12); // scales and least values of 32
      bytes.fill(0, at + 12, at + 16);
    }
  }
  return bytes;
}

function* repeated(source: Uint8Array, bytes: number): Generator<Uint8Array> {
  for (let left = bytes; left > 0; left -= source.length) yield source.subarray(0, Math.min(left, source.length));
}
