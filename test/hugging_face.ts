/** Writes tiny Hugging Face folders, so that tests need no model from outside. */
import { mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { FAMILIES } from "../src/lib/checkpoints/families.ts";
import { encodeSafetensorsHeader } from "../src/workers/checkpoints/safetensors.ts";
import { tensorNames } from "../src/workers/checkpoints/tensors.ts";

export const SIZE = { layers: 2, hidden: 64, heads: 4, kv: 2, head: 16, forward: 96, experts: 4, vocab: 288 };

const CONFIG = {
  num_hidden_layers: SIZE.layers,
  hidden_size: SIZE.hidden,
  intermediate_size: SIZE.forward,
  num_attention_heads: SIZE.heads,
  num_key_value_heads: SIZE.kv,
  head_dim: SIZE.head,
  vocab_size: SIZE.vocab,
  max_position_embeddings: 256,
  rms_norm_eps: 1e-5,
  rope_theta: 10_000,
  tie_word_embeddings: false,
};
const OWN: Record<string, object> = {
  granite: { attention_multiplier: 0.25, embedding_multiplier: 12, residual_multiplier: 0.22, logits_scaling: 8 },
  gemma2: { attn_logit_softcapping: 50, final_logit_softcapping: 30, sliding_window: 128, tie_word_embeddings: true },
  gemma3: { sliding_window: 128, tie_word_embeddings: true },
  qwen3moe: { num_experts: SIZE.experts, num_experts_per_tok: 2, moe_intermediate_size: 32, norm_topk_prob: true },
  "gpt-oss": { num_local_experts: SIZE.experts, num_experts_per_tok: 2, sliding_window: 128 },
  mistral3: {
    rope_parameters: {
      rope_type: "yarn",
      rope_theta: 10_000,
      factor: 4,
      original_max_position_embeddings: 64,
      beta_fast: 32,
      beta_slow: 1,
      mscale_all_dim: 1,
      llama_4_scaling_beta: 0.1,
    },
  },
};

export type Weight = { name: string; dtype: string; shape: readonly number[]; bytes: Uint8Array };
export type FolderOptions = {
  architecture?: string;
  dtype?: "F32" | "BF16" | "F16";
  shards?: number;
  config?: Readonly<Record<string, unknown>>;
  /** `null` removes the file. */
  files?: Readonly<Record<string, string | Uint8Array | null>>;
  edit?: (weights: Weight[]) => Weight[];
};

/** Returns the weights by their names in the folder. */
export function writeFolder(dir: string, options: FolderOptions = {}): Map<string, Float32Array> {
  const { architecture = "llama", dtype = "F32", shards = 1, config = {}, files = {}, edit = (all) => all } = options;
  const family = FAMILIES.find((each) => each.architecture === architecture);
  if (!family) throw new Error(architecture);
  const values = new Map<string, Float32Array>();
  const whole = { ...CONFIG, ...OWN[architecture], ...config };
  const weights: Weight[] = [];
  for (const { hf, gguf, optional } of tensorNames(family, { layers: SIZE.layers, experts: SIZE.experts })) {
    if (optional && !(gguf === "output.weight" && !whole.tie_word_embeddings) && !wantsBias(architecture, gguf))
      continue;
    for (const name of hf) {
      if (values.has(name)) continue; // gate and up in one
      const shape = shapeOf(name, architecture);
      const floats = random(
        shape.reduce((product, size) => product * size, 1),
        name,
      );
      values.set(name, floats);
      weights.push({ name, dtype, shape, bytes: encode(floats, dtype) });
    }
  }
  mkdirSync(dir, { recursive: true });
  const all: Record<string, string | Uint8Array | null> = {
    "config.json": JSON.stringify({ architectures: [family.classes[0]], model_type: family.modelType, ...whole }),
    "tokenizer.json": JSON.stringify(tokenizerJson()),
    "tokenizer_config.json": JSON.stringify({ bos_token: "<s>", eos_token: "</s>", chat_template: "{{ messages }}" }),
    "generation_config.json": JSON.stringify({ temperature: 0.6, top_p: 0.95, top_k: 20 }),
    ...safetensors(edit(weights), shards),
    ...files,
  };
  for (const [name, content] of Object.entries(all)) if (content !== null) writeFileSync(join(dir, name), content);
  return values;
}

/** The files as the conversion takes them. */
export const filesIn = (dir: string): Record<string, string> =>
  Object.fromEntries(readdirSync(dir).map((name) => [name, join(dir, name)]));

/** Biases that llama.cpp requires. */
const wantsBias = (architecture: string, gguf: string) =>
  (architecture === "qwen2" && /attn_[qkv]\.bias$/.test(gguf)) ||
  (architecture === "gpt-oss" && /attn_.*bias$/.test(gguf));

function shapeOf(name: string, architecture: string): number[] {
  const { hidden, heads, kv, head, forward, experts, vocab } = SIZE;
  const expert = architecture === "qwen3moe" ? 32 : forward;
  const rules: [RegExp, number[]][] = [
    [/embed_tokens|lm_head/, [vocab, hidden]],
    [/[qk]_norm/, [head]],
    [/norm/, [hidden]],
    [/qkv_proj/, [(heads + 2 * kv) * head, hidden]],
    [/q_proj\.weight/, [heads * head, hidden]],
    [/[kv]_proj\.weight/, [kv * head, hidden]],
    [/q_proj\.bias/, [heads * head]],
    [/[kv]_proj\.bias/, [kv * head]],
    [/o_proj\.weight/, [hidden, heads * head]],
    [/o_proj\.bias/, [hidden]],
    [/sinks/, [heads]],
    [/mlp\.gate\.weight|router\.weight/, [experts, hidden]],
    [/router\.bias/, [experts]],
    [/experts\.gate_up_proj$/, [experts, hidden, 2 * expert]],
    [/experts\.down_proj$/, [experts, expert, hidden]],
    [/experts\.gate_up_proj_bias/, [experts, 2 * expert]],
    [/experts\.down_proj_bias/, [experts, hidden]],
    [/gate_up_proj/, [2 * forward, hidden]],
    [/(gate|up)_proj/, [expert, hidden]],
    [/down_proj/, [hidden, expert]],
  ];
  const found = rules.find(([pattern]) => pattern.test(name));
  if (!found) throw new Error(name);
  return found[1];
}

/** Small values that differ for each tensor and are exact in BF16. */
function random(count: number, name: string): Float32Array {
  let state = Bun.hash.crc32(name) || 1;
  const isNorm = /norm/.test(name);
  return Float32Array.from({ length: count }, () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    const value = ((state >>> 24) - 128) / 1024;
    return isNorm ? 1 + value : value;
  });
}

export function encode(values: Float32Array, dtype: string): Uint8Array {
  if (dtype === "F32") return new Uint8Array(values.slice().buffer);
  if (dtype === "F16") return new Uint8Array(Float16Array.from(values).buffer);
  return new Uint8Array(Uint16Array.from(new Uint32Array(values.slice().buffer), (bits) => bits >>> 16).buffer);
}

export function safetensors(weights: readonly Weight[], shards: number): Record<string, Uint8Array | string> {
  const nameOf = (i: number) =>
    `model-${String(i + 1).padStart(5, "0")}-of-${String(shards).padStart(5, "0")}.safetensors`;
  const files: Record<string, Uint8Array | string> = {};
  const map: Record<string, string> = {};
  for (let i = 0; i < shards; i++) {
    const part = weights.filter((_, at) => at % shards === i);
    files[shards === 1 ? "model.safetensors" : nameOf(i)] = Buffer.concat([
      encodeSafetensorsHeader(part),
      ...part.map(({ bytes }) => bytes),
    ]);
    for (const { name } of part) map[name] = nameOf(i);
  }
  if (shards > 1) files["model.safetensors.index.json"] = JSON.stringify({ metadata: {}, weight_map: map });
  return files;
}

const QWEN2 =
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

/** A byte-level BPE tokenizer: 256 bytes, some merges, and three special tokens. */
export function tokenizerJson(regex = QWEN2) {
  const letters = byteLetters();
  const merges: [string, string][] = [
    ["h", "e"],
    ["l", "l"],
    ["he", "ll"],
    ["hell", "o"],
    ["Ġ", "t"],
    ["Ġt", "he"],
  ];
  const tokens = [...letters, ...merges.map((pair) => pair.join(""))];
  return {
    version: "1.0",
    added_tokens: ["<s>", "</s>", "<|im_end|>"].map((content, i) => ({
      id: tokens.length + i,
      content,
      special: true,
    })),
    normalizer: { type: "NFC" },
    pre_tokenizer: {
      type: "Sequence",
      pretokenizers: [
        { type: "Split", pattern: { Regex: regex }, behavior: "Isolated", invert: false },
        { type: "ByteLevel", add_prefix_space: false, trim_offsets: false, use_regex: false },
      ],
    },
    decoder: { type: "ByteLevel" },
    model: { type: "BPE", vocab: Object.fromEntries(tokens.map((token, id) => [token, id])), merges },
  };
}

/** The printable letter of each byte, as GPT-2 chose them. */
function byteLetters(): string[] {
  const isPlain = (byte: number) =>
    (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || (byte >= 0xae && byte <= 0xff);
  let other = 256;
  return Array.from({ length: 256 }, (_, byte) => String.fromCodePoint(isPlain(byte) ? byte : other++));
}
