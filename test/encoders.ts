/** Encoders with random weights: BERT with WordPiece, for embeddings or as a reranker. */
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { encoderTensors as encoderNames } from "../src/workers/checkpoints/encoder.ts";
import { bool, f32, type GgufTensor, type GgufValue, i32s, str, strings, u32, writeGguf } from "./gguf_writer.ts";
import { encode, safetensors, type Weight } from "./hugging_face.ts";

export const POOLING = { mean: 1, cls: 2, last: 3, rank: 4 } as const;
export type EncoderOptions = {
  /** Null: the file names none. */
  pooling: keyof typeof POOLING | null;
  /** Scores of a reranker. */
  labels?: number;
  context?: number;
};

const WIDTH = 32;
const WIDE = 64;
const HEADS = 2;
const LAYERS = 2;
const WORDS = ["king", "queen", "tractor", "the", "a", "is", "s", "##s", "##ing", "run", "b", ".", ",", "!", "hello"];
export const ENCODER_TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ...WORDS];
const CONTROLS = 5;

/** GGUF writes a word's beginning with ▁ and its continuation without ##. */
const spelled = (token: string, id: number) =>
  id < CONTROLS ? token : token.startsWith("##") ? token.slice(2) : `▁${token}`;

export const ENCODER = { width: WIDTH, wide: WIDE, heads: HEADS, layers: LAYERS, epsilon: 1e-12 };

/** Writes the model into `dir` and returns its path. */
export function makeEncoder(dir: string, options: EncoderOptions): string {
  const { pooling, labels = 1, context = 128 } = options;
  const metadata: Record<string, GgufValue> = {
    "general.architecture": str("bert"),
    "general.name": str("random bert"),
    "general.file_type": u32(0),
    "bert.context_length": u32(context),
    "bert.embedding_length": u32(WIDTH),
    "bert.feed_forward_length": u32(WIDE),
    "bert.block_count": u32(LAYERS),
    "bert.attention.head_count": u32(HEADS),
    "bert.attention.layer_norm_epsilon": f32(ENCODER.epsilon),
    "bert.attention.causal": bool(false),
    ...(pooling === null ? {} : { "bert.pooling_type": u32(POOLING[pooling]) }),
    ...(pooling === "rank" && labels > 1
      ? { "bert.classifier.output_labels": strings(Array.from({ length: labels }, (_, i) => `label${i}`)) }
      : {}),
    "tokenizer.ggml.model": str("bert"),
    "tokenizer.ggml.pre": str("default"),
    "tokenizer.ggml.token_type_count": u32(2),
    "tokenizer.ggml.tokens": strings(ENCODER_TOKENS.map(spelled)),
    "tokenizer.ggml.token_type": i32s(ENCODER_TOKENS.map((_, id) => (id < CONTROLS ? 3 : 1))),
    "tokenizer.ggml.bos_token_id": u32(2),
    "tokenizer.ggml.unknown_token_id": u32(1),
    "tokenizer.ggml.seperator_token_id": u32(3),
    "tokenizer.ggml.padding_token_id": u32(0),
    "tokenizer.ggml.mask_token_id": u32(4),
  };
  const path = join(dir, `bert-${pooling}-${labels}-${context}.gguf`);
  writeGguf(path, metadata, encoderTensors(pooling === "rank" ? labels : 0, context));
  return path;
}

export function encoderTensors(labels: number, context: number): GgufTensor[] {
  let state = 1;
  const random = (count: number, size: number) =>
    Float32Array.from({ length: count }, () => {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
      return (state / 2 ** 31 - 1) * size;
    });
  const matrix = (name: string, inputs: number, outputs: number, size: number): GgufTensor => ({
    name: `${name}.weight`,
    shape: [inputs, outputs],
    type: "F32",
    values: random(inputs * outputs, size),
  });
  const vector = (name: string, values: Float32Array): GgufTensor => ({
    name,
    shape: [values.length],
    type: "F32",
    values,
  });
  const linear = (name: string, inputs: number, outputs: number) => [
    matrix(name, inputs, outputs, 2 / Math.sqrt(inputs)),
    vector(`${name}.bias`, random(outputs, 0.1)),
  ];
  const norm = (name: string) => [
    vector(`${name}.weight`, new Float32Array(WIDTH).fill(1)),
    vector(`${name}.bias`, random(WIDTH, 0.1)),
  ];
  const layer = (i: number) => [
    ...["attn_q", "attn_k", "attn_v", "attn_output"].flatMap((part) => linear(`blk.${i}.${part}`, WIDTH, WIDTH)),
    ...norm(`blk.${i}.attn_output_norm`),
    ...linear(`blk.${i}.ffn_up`, WIDTH, WIDE),
    ...linear(`blk.${i}.ffn_down`, WIDE, WIDTH),
    ...norm(`blk.${i}.layer_output_norm`),
  ];
  return [
    matrix("token_embd", WIDTH, ENCODER_TOKENS.length, 1),
    matrix("token_types", WIDTH, 2, 0.1),
    matrix("position_embd", WIDTH, context, 0.3),
    ...norm("token_embd_norm"),
    ...Array.from({ length: LAYERS }, (_, i) => layer(i)).flat(),
    ...(labels > 0 ? [...linear("cls", WIDTH, WIDTH), ...linear("cls.output", WIDTH, labels)] : []),
  ];
}

export type EncoderFolder = {
  ranks?: boolean;
  labels?: number;
  context?: number;
  config?: object;
  /** Null removes a file; other values replace or add it. */
  files?: Readonly<Record<string, object | null>>;
  edit?: (weights: Weight[]) => Weight[];
};

/** Writes the same model as a Hugging Face folder. Its tensors have the names of the class with the head. */
export function writeEncoderFolder(dir: string, options: EncoderFolder = {}) {
  const { ranks = false, labels = 1, context = 128, config = {}, files = {}, edit = (all) => all } = options;
  const values = new Map(encoderTensors(ranks ? labels : 0, context).map((tensor) => [tensor.name, tensor]));
  const prefix = (name: string) => (ranks && !name.startsWith("classifier") ? `bert.${name}` : name);
  const weights = encoderNames({ architecture: "bert", ranks }, LAYERS).map(({ gguf, hf }): Weight => {
    const { shape, values: floats } = values.get(gguf)!;
    return { name: prefix(hf[0]!), dtype: "F32", shape: [...shape].reverse(), bytes: encode(floats, "F32") };
  });
  const all: Record<string, object | null> = {
    "config.json": {
      architectures: [ranks ? "BertForSequenceClassification" : "BertModel"],
      model_type: "bert",
      hidden_act: "gelu",
      layer_norm_eps: ENCODER.epsilon,
      type_vocab_size: 2,
      hidden_size: WIDTH,
      intermediate_size: WIDE,
      num_attention_heads: HEADS,
      num_hidden_layers: LAYERS,
      max_position_embeddings: context,
      vocab_size: ENCODER_TOKENS.length,
      ...config,
    },
    "tokenizer.json": wordPieceJson(),
    ...safetensors(edit(weights), 1),
    ...files,
  };
  for (const [name, content] of Object.entries(all)) {
    if (content === null) continue;
    mkdirSync(dirname(join(dir, name)), { recursive: true });
    writeFileSync(join(dir, name), content instanceof Uint8Array ? content : JSON.stringify(content));
  }
}

export const wordPieceJson = (model: object = {}, rest: object = {}) => ({
  added_tokens: ENCODER_TOKENS.slice(0, CONTROLS).map((content, id) => ({ id, content, special: true })),
  normalizer: {
    type: "BertNormalizer",
    clean_text: true,
    handle_chinese_chars: true,
    strip_accents: null,
    lowercase: true,
  },
  pre_tokenizer: { type: "BertPreTokenizer" },
  model: {
    type: "WordPiece",
    unk_token: "[UNK]",
    continuing_subword_prefix: "##",
    vocab: Object.fromEntries(ENCODER_TOKENS.map((token, id) => [token, id])),
    ...model,
  },
  ...rest,
});
