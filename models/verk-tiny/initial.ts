/**
 * verk-tiny before its training: the tokenizer, the chat template and random weights, as a GGUF file.
 *
 *   bun models/verk-tiny/initial.ts OUT.gguf [seed]
 */
import { join } from "node:path";
import {
  float32Value,
  ggufChunks,
  type Metadata,
  type NewValue,
  type TensorSource,
  textValue,
  uint32Value,
} from "../../src/lib/gguf/write.ts";
import { openRandom, type Random } from "../../src/lib/random.ts";
import { UNCOUNTED, writeStreamAtomic } from "../../src/platform/files.ts";

export const SHAPE = { context: 1024, layers: 6, width: 192, heads: 6, keyHeads: 2, forward: 512 } as const;
const EPSILON = 1e-5;
const ROPE_BASE = 10_000;
const CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"];
// biome-ignore format: a table should look like one
const TAGS = [
  "<think>", "</think>", "<answer>", "</answer>", "<tool_call>", "</tool_call>",
  "<tool_response>", "</tool_response>", "<tools>", "</tools>",
];
const KIND = { normal: 1, control: 3, userDefined: 4 } as const;
const SPREAD = 0.05;

/** GPT-2's printable stand-in for each byte: itself where printable, else the next free code point from 256. */
function byteAlphabet(): string[] {
  const isPlain = (byte: number) => (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
  let next = 256;
  return Array.from({ length: 256 }, (_, byte) => String.fromCodePoint(isPlain(byte) ? byte : next++));
}

async function tokenizerOf(dir: string) {
  const { merges } = (await Bun.file(join(dir, "tokenizer.json")).json()) as { merges: [string, string][] };
  const plain = [...byteAlphabet(), ...merges.map(([a, b]) => a + b)];
  const kinds = [
    ...CONTROL.map(() => KIND.control),
    ...TAGS.map(() => KIND.userDefined),
    ...plain.map(() => KIND.normal),
  ];
  return { tokens: [...CONTROL, ...TAGS, ...plain], kinds, merges: merges.map((pair) => pair.join(" ")) };
}

async function metadataOf(dir: string): Promise<Metadata> {
  const { tokens, kinds, merges } = await tokenizerOf(dir);
  const template = (await Bun.file(join(dir, "template.jinja")).text()).trim();
  const description = "A very small chat model for trying and testing Verk, trained from scratch on synthetic text.";
  const text = (values: readonly string[]): NewValue => ({ type: "array", of: "string", values });
  return new Map<string, NewValue>([
    ["general.architecture", textValue("llama")],
    ["general.name", textValue("verk-tiny")],
    ["general.type", textValue("model")],
    ["general.license", textValue("apache-2.0")],
    ["general.size_label", textValue("2.7M")],
    ["general.description", textValue(description)],
    ["general.file_type", uint32Value(0)],
    ["llama.vocab_size", uint32Value(tokens.length)],
    ["llama.context_length", uint32Value(SHAPE.context)],
    ["llama.embedding_length", uint32Value(SHAPE.width)],
    ["llama.block_count", uint32Value(SHAPE.layers)],
    ["llama.feed_forward_length", uint32Value(SHAPE.forward)],
    ["llama.attention.head_count", uint32Value(SHAPE.heads)],
    ["llama.attention.head_count_kv", uint32Value(SHAPE.keyHeads)],
    ["llama.attention.layer_norm_rms_epsilon", float32Value(EPSILON)],
    ["llama.rope.dimension_count", uint32Value(SHAPE.width / SHAPE.heads)],
    ["llama.rope.freq_base", float32Value(ROPE_BASE)],
    ["tokenizer.ggml.model", textValue("gpt2")],
    ["tokenizer.ggml.pre", textValue("qwen2")],
    ["tokenizer.ggml.tokens", text(tokens)],
    ["tokenizer.ggml.token_type", { type: "array", of: "int32", values: kinds }],
    ["tokenizer.ggml.merges", text(merges)],
    ["tokenizer.ggml.bos_token_id", uint32Value(CONTROL.indexOf("<|endoftext|>"))],
    ["tokenizer.ggml.eos_token_id", uint32Value(CONTROL.indexOf("<|im_end|>"))],
    ["tokenizer.ggml.padding_token_id", uint32Value(CONTROL.indexOf("<|endoftext|>"))],
    ["tokenizer.ggml.add_bos_token", { type: "bool", value: false }],
    ["tokenizer.chat_template", textValue(template)],
  ]);
}

type Planned = { name: string; dims: number[]; spread: number };

/** Weights that write into the residual stream start smaller, by the number of such writes. */
function planned(vocab: number): Planned[] {
  const { width, forward, layers, heads, keyHeads } = SHAPE;
  const keys = (width / heads) * keyHeads;
  const late = SPREAD / Math.sqrt(2 * layers);
  const norm = (name: string): Planned => ({ name, dims: [width], spread: 0 });
  const matrix = (name: string, inputs: number, outputs: number, spread = SPREAD): Planned => ({
    name,
    dims: [inputs, outputs],
    spread,
  });
  const layer = (i: number) => [
    norm(`blk.${i}.attn_norm.weight`),
    matrix(`blk.${i}.attn_q.weight`, width, width),
    matrix(`blk.${i}.attn_k.weight`, width, keys),
    matrix(`blk.${i}.attn_v.weight`, width, keys),
    matrix(`blk.${i}.attn_output.weight`, width, width, late),
    norm(`blk.${i}.ffn_norm.weight`),
    matrix(`blk.${i}.ffn_gate.weight`, width, forward),
    matrix(`blk.${i}.ffn_up.weight`, width, forward),
    matrix(`blk.${i}.ffn_down.weight`, forward, width, late),
  ];
  return [
    matrix("token_embd.weight", width, vocab),
    ...Array.from({ length: layers }, (_, i) => layer(i)).flat(),
    norm("output_norm.weight"),
  ];
}

/** Box and Muller's way from two even numbers to a normal one. */
const normal = (random: Random) => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());

function tensorOf({ name, dims, spread }: Planned, seed: number, index: number): TensorSource {
  const count = dims.reduce((a, b) => a * b, 1);
  const random = openRandom(seed, index);
  const values = Float32Array.from({ length: count }, () => (spread === 0 ? 1 : normal(random) * spread));
  return { name, type: "F32", dims, content: () => [new Uint8Array(values.buffer)] };
}

export async function writeInitial(path: string, seed: number): Promise<void> {
  const metadata = await metadataOf(import.meta.dir);
  const tokens = metadata.get("tokenizer.ggml.tokens") as Extract<NewValue, { type: "array" }>;
  const tensors = planned(tokens.values.length).map((each, i) => tensorOf(each, seed, i));
  await writeStreamAtomic(path, ggufChunks(metadata, tensors), { meter: UNCOUNTED });
}

if (import.meta.main) {
  const [path = "", seed = "7"] = Bun.argv.slice(2);
  await writeInitial(path, Number(seed));
}
