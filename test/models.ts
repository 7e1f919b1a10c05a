/**
 * Models with random weights, made in milliseconds. Not noise all the way: one head of the last layer attends to one
 * token of the context and the output layer names a fixed partner of it, so the most likely token depends on the whole
 * context and leads clearly. Two ways of computing the same thing then agree on it in spite of rounding.
 * Greedy text is printable ASCII and `extraVocab`; the end token is never the most likely one.
 */
import { join } from "node:path";
import type { Family } from "../src/lib/gguf/architecture.ts";
import {
  bool,
  f32,
  type GgufTensor,
  type GgufValue,
  i32s,
  str,
  strings,
  type TensorType,
  u32,
  writeGguf,
} from "./gguf_writer.ts";
import { familyMetadata, familyTensors } from "./model_families.ts";

export type ModelOptions = {
  arch: Family;
  type: TensorType;
  seed?: number;
  layers?: number;
  width?: number;
  heads?: number;
  kvHeads?: number;
  /** Absent: the width divided by the heads. */
  headLength?: number;
  /** Standard deviation of the queries' and keys' weights, in units that keep a vector's length. Absent: 3. */
  sharpness?: number;
  ff?: number;
  context?: number;
  /** Absent: ChatML with tools. Null: none in the file. */
  template?: string | null;
  /** Whole words, found in a text as they are: for example "🙂" as one token. Not a single Latin-1 letter. */
  extraVocab?: readonly string[];
  /** The tokens before a text, before its suffix, and before what fills the gap: the file names them by number. */
  gapTokens?: readonly [string, string, string];
  /** The number of a pooling in the file. */
  pooling?: number;
  /** Vocabulary up to this size is filled with words that only a model can say. */
  vocabSize?: number;
};
export type AdapterOptions = ModelOptions & { rank?: number; strength?: number; adapterSeed?: number };

const NORMAL = 1;
const CONTROL = 3;
const USER_DEFINED = 4;
const MERGES = [
  "t h",
  "Ġ t",
  "Ġt h",
  "Ġth e",
  "i n",
  "e r",
  "a n",
  "Ġ a",
  "Ġan d",
  "h e",
  "l l",
  "he ll",
  "hell o",
  "in g",
];
const SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"];

export const CHATML = `{%- set said = messages[0].content if messages[0].role == "system" else "" %}
{%- if tools %}{{ "<|im_start|>system\\n" }}{% if said %}{{ said + "\\n\\n" }}{% endif %}{{ "You can call these functions:\\n<tools>" }}
{%- for tool in tools %}{{ "\\n" + (tool | tojson) }}{% endfor %}
{{- "\\n</tools>\\nA call is written as <tool_call>{\\"name\\": NAME, \\"arguments\\": ARGUMENTS}</tool_call><|im_end|>\\n" }}
{%- elif said %}{{ "<|im_start|>system\\n" + said + "<|im_end|>\\n" }}{% endif %}
{%- for message in messages %}
{%- if message.role == "tool" %}{{ "<|im_start|>user\\n<tool_response>\\n" + message.content + "\\n</tool_response><|im_end|>\\n" }}
{%- elif message.role == "assistant" and message.tool_calls %}{{ "<|im_start|>assistant\\n" + (message.content or "") }}
{%- for call in message.tool_calls %}{{ "<tool_call>\\n{\\"name\\": \\"" + call.function.name + "\\", \\"arguments\\": " + (call.function.arguments | tojson) + "}\\n</tool_call>" }}{% endfor %}{{ "<|im_end|>\\n" }}
{%- elif not (loop.first and message.role == "system") %}{{ "<|im_start|>" + message.role + "\\n" + message.content + "<|im_end|>\\n" }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ "<|im_start|>assistant\\n" }}{% endif %}`;

/** Writes the model into `dir` and returns its path. The same options give the same bytes. */
export function makeModel(dir: string, options: ModelOptions): string {
  const shape = shapeOf(options);
  const { tokens, types, says } = vocabulary(options);
  const tensors = familyTensors(options.arch, weights(shape, options, tokens.length, says), shape);
  const path = join(dir, `${options.arch}-${options.type}-${fingerprint(options)}.gguf`);
  writeGguf(path, metadata(shape, options, tokens, types), tensors);
  return path;
}

/** A LoRA adapter for the model that `makeModel` makes of the same options: it moves attention and output. */
export function makeAdapter(dir: string, options: AdapterOptions): string {
  const { rank = 4, strength = 1, adapterSeed = 1 } = options;
  const shape = shapeOf(options);
  const random = gaussian(adapterSeed * 7919 + 13);
  const pair = (name: string, inputs: number, outputs: number): GgufTensor[] => [
    {
      name: `${name}.lora_a`,
      shape: [inputs, rank],
      type: "F32",
      values: random(inputs * rank, 1 / Math.sqrt(inputs)),
    },
    { name: `${name}.lora_b`, shape: [rank, outputs], type: "F32", values: random(rank * outputs, strength / 2) },
  ];
  const tensors = Array.from({ length: shape.layers }, (_, i) => [
    ...pair(`blk.${i}.attn_q.weight`, shape.width, shape.heads * shape.keyLength),
    ...pair(`blk.${i}.attn_output.weight`, shape.heads * shape.keyLength, shape.width),
  ]).flat();
  const path = join(dir, `adapter-${fingerprint(options)}.gguf`);
  const entries = {
    "general.type": str("adapter"),
    "general.architecture": str(options.arch),
    "adapter.type": str("lora"),
    "adapter.lora.alpha": f32(rank),
  };
  writeGguf(path, entries, tensors);
  return path;
}

type Shape = ReturnType<typeof shapeOf>;
function shapeOf(options: ModelOptions) {
  const { arch, layers = 2, width = 64, heads = 2, kvHeads = 1, ff = 192, context = 512 } = options;
  const usual = arch === "qwen3" ? Math.max(32, (2 * width) / heads) : width / heads;
  const keyLength = options.headLength ?? usual;
  return { layers, width, heads, kvHeads, ff, context, keyLength };
}

const fingerprint = (options: object) => Bun.hash(JSON.stringify(Object.entries(options).sort())).toString(36);

function metadata(shape: Shape, options: ModelOptions, tokens: string[], types: number[]): Record<string, GgufValue> {
  const { arch, template = CHATML } = options;
  const id = (token: string) => u32(tokens.indexOf(token));
  return {
    "general.architecture": str(arch),
    // llama.cpp wants certain tokens of a model whose name has phi3 in it.
    "general.name": str(`random ${arch === "phi3" ? "phi" : arch}`),
    "general.file_type": u32({ F32: 0, F16: 1, Q8_0: 7, BF16: 32, MXFP4: 38 }[options.type]),
    [`${arch}.context_length`]: u32(shape.context),
    [`${arch}.embedding_length`]: u32(shape.width),
    [`${arch}.block_count`]: u32(shape.layers),
    [`${arch}.feed_forward_length`]: u32(shape.ff),
    [`${arch}.attention.head_count`]: u32(shape.heads),
    [`${arch}.attention.head_count_kv`]: u32(shape.kvHeads),
    [`${arch}.attention.key_length`]: u32(shape.keyLength),
    [`${arch}.attention.value_length`]: u32(shape.keyLength),
    [`${arch}.attention.layer_norm_rms_epsilon`]: f32(1e-6),
    [`${arch}.rope.dimension_count`]: u32(shape.keyLength),
    [`${arch}.rope.freq_base`]: f32(10_000),
    ...familyMetadata(arch, shape),
    ...(options.pooling === undefined ? {} : { [`${arch}.pooling_type`]: u32(options.pooling) }),
    [`${arch}.vocab_size`]: u32(tokens.length),
    "tokenizer.ggml.model": str("gpt2"),
    "tokenizer.ggml.pre": str("gpt-2"),
    "tokenizer.ggml.tokens": strings(tokens),
    "tokenizer.ggml.token_type": i32s(types),
    "tokenizer.ggml.merges": strings(MERGES),
    "tokenizer.ggml.bos_token_id": id("<|endoftext|>"),
    "tokenizer.ggml.eos_token_id": id("<|im_end|>"),
    "tokenizer.ggml.add_bos_token": bool(false),
    ...Object.fromEntries(
      (options.gapTokens ?? []).map((token, i) => [
        `tokenizer.ggml.fim_${["pre", "suf", "mid"][i]}_token_id`,
        id(token),
      ]),
    ),
    ...(template === null ? {} : { "tokenizer.chat_template": str(template) }),
  };
}

/** The 256 bytes in GPT-2's spelling, the merges, the extra words, the control tokens; and which of them are spoken. */
function vocabulary({ extraVocab = [], vocabSize = 0 }: ModelOptions) {
  const bytes = Array.from({ length: 256 }, (_, byte) => byte);
  const plain = (byte: number) => (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
  const shifted = bytes.filter((byte) => !plain(byte));
  const spell = (byte: number) => String.fromCodePoint(plain(byte) ? byte : 256 + shifted.indexOf(byte));
  const merged = MERGES.map((merge) => merge.replace(" ", ""));
  const words = [...bytes.map(spell), ...merged];
  const filler = Array.from(
    { length: Math.max(0, vocabSize - words.length - extraVocab.length - SPECIALS.length) },
    (_, i) => `w${i}Ġ`,
  );
  const tokens = [...words, ...filler, ...extraVocab, ...SPECIALS];
  if (new Set(tokens).size < tokens.length) throw new Error("extraVocab repeats a token of the vocabulary");
  const first = { extra: words.length + filler.length, special: tokens.length - SPECIALS.length };
  const types = tokens.map((_, i) => (i >= first.special ? CONTROL : i >= first.extra ? USER_DEFINED : NORMAL));
  const says = tokens.flatMap((_, i) => ((i >= 32 && i < 127) || (i >= 256 && i < first.special) ? [i] : []));
  return { tokens, types, says };
}

function weights(shape: Shape, options: ModelOptions, vocab: number, says: readonly number[]): GgufTensor[] {
  const { arch, type, seed = 1, sharpness = 3 } = options;
  const { width, heads, kvHeads, keyLength, ff } = shape;
  const random = gaussian(seed);
  const matrix = (name: string, inputs: number, outputs: number, values: Float32Array): GgufTensor => ({
    name: `${name}.weight`,
    shape: [inputs, outputs],
    type,
    values,
  });
  const vector = (name: string, values: Float32Array): GgufTensor => ({
    name,
    shape: [values.length],
    type: "F32",
    values,
  });
  const ones = (length: number, value = 1) => new Float32Array(length).fill(value);
  const embedding = random(vocab * width, 1);
  const tensors = [matrix("token_embd", width, vocab, embedding), vector("output_norm.weight", ones(width))];
  const unit = 1 / Math.sqrt(width);
  for (let layer = 0; layer < shape.layers; layer++) {
    const last = layer === shape.layers - 1;
    const name = (part: string) => `blk.${layer}.${part}`;
    const value = random(width * kvHeads * keyLength, unit);
    const output = random(heads * keyLength * width, 0.1 * unit);
    if (last) tensors.push(matrix("output", width, vocab, partners({ embedding, value, output, says, shape, vocab })));
    tensors.push(
      vector(name("attn_norm.weight"), ones(width)),
      matrix(name("attn_q"), width, heads * keyLength, random(width * heads * keyLength, sharpness * unit)),
      matrix(name("attn_k"), width, kvHeads * keyLength, random(width * kvHeads * keyLength, sharpness * unit)),
      matrix(name("attn_v"), width, kvHeads * keyLength, value),
      matrix(name("attn_output"), heads * keyLength, width, output),
      vector(name("ffn_norm.weight"), ones(width)),
      matrix(name("ffn_gate"), width, ff, random(width * ff, unit)),
      matrix(name("ffn_up"), width, ff, random(width * ff, unit)),
      matrix(name("ffn_down"), ff, width, random(width * ff, 0.2 / Math.sqrt(ff))),
    );
    if (arch === "qwen2") {
      tensors.push(vector(name("attn_q.bias"), random(heads * keyLength, 0.3)));
      for (const part of ["attn_k.bias", "attn_v.bias"])
        tensors.push(vector(name(part), random(kvHeads * keyLength, 0.1)));
    }
    if (arch === "qwen3") {
      for (const part of ["attn_q_norm.weight", "attn_k_norm.weight"])
        tensors.push(vector(name(part), ones(keyLength, 2.5)));
    }
  }
  return tensors;
}

type Head = {
  embedding: Float32Array;
  value: Float32Array;
  output: Float32Array;
  says: readonly number[];
  shape: Shape;
  vocab: number;
};

/**
 * Makes head 0 of the last layer loud (in place) and returns the output layer that recognises what it copies: the row
 * of a token holds the trace that its partners leave in the residual stream.
 */
function partners({ embedding, value, output, says, shape, vocab }: Head): Float32Array {
  const { width, heads, keyLength } = shape;
  const loud = 6 / Math.sqrt(keyLength);
  const inputs = heads * keyLength;
  const mixed = gaussian(97)(width * keyLength, loud);
  for (let i = 0; i < width; i++) output.set(mixed.subarray(i * keyLength, (i + 1) * keyLength), i * inputs);
  const rows = new Float32Array(vocab * width);
  const copied = new Float32Array(keyLength);
  for (let token = 0; token < vocab; token++) {
    for (let k = 0; k < keyLength; k++) {
      let sum = 0;
      for (let i = 0; i < width; i++) sum += value[k * width + i]! * embedding[token * width + i]!;
      copied[k] = sum;
    }
    const partner = says[(token * 7919 + 31) % says.length]!;
    for (let i = 0; i < width; i++) {
      let sum = 0;
      for (let k = 0; k < keyLength; k++) sum += mixed[i * keyLength + k]! * copied[k]!;
      rows[partner * width + i]! += sum;
    }
  }
  return normalised(rows, width, 1.2);
}

/** Every row that is not empty gets the same length. */
function normalised(rows: Float32Array, width: number, length: number): Float32Array {
  for (let start = 0; start < rows.length; start += width) {
    const row = rows.subarray(start, start + width);
    const norm = Math.hypot(...row);
    if (norm > 0) for (let i = 0; i < width; i++) row[i]! *= length / norm;
  }
  return rows;
}

/** Sums of three uniforms: near enough to normal, and fast. */
export function gaussian(seed: number) {
  let state = (seed * 2654435761) >>> 0 || 1;
  const uniform = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  return (count: number, deviation: number) => {
    const values = new Float32Array(count);
    for (let i = 0; i < count; i++) values[i] = (uniform() + uniform() + uniform() - 1.5) * 2 * deviation;
    return values;
  };
}
