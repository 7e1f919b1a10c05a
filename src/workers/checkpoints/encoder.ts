/** BERT and its relatives: encoders for embeddings, and rerankers. Pure: the facts that their conversion needs. */

import { CheckpointError } from "../../lib/checkpoints/families.ts";
import { type Metadata, type NewValue, uint32Value } from "../../lib/gguf/write.ts";
import { type Config, count, floatIn } from "./config.ts";
import type { TensorName } from "./tensors.ts";

/** One text becomes one vector (`ranks: false`), or a pair of texts becomes scores. */
export type Encoder = { architecture: "bert"; ranks: boolean };

const CLASSES: Readonly<Record<string, boolean>> = {
  BertModel: false,
  BertForMaskedLM: false,
  BertForSequenceClassification: true,
};

/** Undefined: the folder has another kind of model. */
export function encoderOfConfig({ architectures }: Config): Encoder | undefined {
  const name = Array.isArray(architectures) ? String(architectures[0]) : "";
  if (!Object.hasOwn(CLASSES, name)) return undefined;
  return { architecture: "bert", ranks: CLASSES[name] === true };
}

/** Variants that llama.cpp computes differently from Hugging Face. */
export function requireEncoder(config: Config) {
  const { hidden_act: activation = "gelu", position_embedding_type: positions = "absolute" } = config;
  if (!["gelu", "gelu_new", "gelu_pytorch_tanh"].includes(String(activation)))
    throw new CheckpointError(
      `config.json: hidden_act is ${shownValue(activation)}, but only gelu is supported for this architecture`,
    );
  if (positions !== "absolute")
    throw new CheckpointError(
      `config.json: position_embedding_type is ${shownValue(positions)}, but only absolute is supported`,
    );
}

const shownValue = (value: unknown) => JSON.stringify(value)?.slice(0, 60);

type SmallPooling = { modules: unknown; pooling: unknown };
const POOLING_MODES = [
  ["pooling_mode_mean_tokens", 1],
  ["pooling_mode_cls_token", 2],
  ["pooling_mode_lasttoken", 3],
] as const;
const RANK = 4;

/**
 * The number of `pooling_type`. The files of sentence-transformers name it. A folder without them gets the mean, as that
 * library does.
 */
export function poolingTypeOf({ ranks }: Encoder, { modules, pooling }: SmallPooling): number {
  if (ranks) return RANK;
  if (Array.isArray(modules)) {
    const types = modules.map((each) => String((each as { type?: unknown } | null)?.type ?? ""));
    const other = types.find((type) => !/\.(Transformer|Pooling|Normalize)$/.test(type));
    if (other !== undefined)
      throw new CheckpointError(
        `modules.json has a step ${JSON.stringify(other.slice(0, 80))}, which is not supported: only Transformer, Pooling and Normalize are`,
      );
    if (types.some((type) => type.endsWith(".Pooling")) && pooling === undefined)
      throw new CheckpointError(
        "modules.json names a pooling, but 1_Pooling/config.json is missing: copy it into the folder",
      );
  }
  if (typeof pooling !== "object" || pooling === null) return POOLING_MODES[0][1];
  const settings = pooling as Readonly<Record<string, unknown>>;
  const on = Object.keys(settings).filter((key) => key.startsWith("pooling_mode_") && settings[key] === true);
  const mode = POOLING_MODES.find(([key]) => on.length === 1 && on[0] === key);
  if (!mode)
    throw new CheckpointError(
      `1_Pooling/config.json has ${on.join(", ").slice(0, 120) || "no mode"}: one of mean, cls and last token is supported`,
    );
  return mode[1];
}

export type EncoderFacts = { encoder: Encoder; config: Config; pooling: number; labels: number };

export function encoderMetadata({ encoder, config, pooling, labels }: EncoderFacts): Metadata {
  const key = (name: string) => `${encoder.architecture}.${name}`;
  const all = new Map<string, NewValue>([
    [key("block_count"), uint32Value(count(config, "num_hidden_layers"))],
    [key("context_length"), uint32Value(count(config, "max_position_embeddings"))],
    [key("embedding_length"), uint32Value(count(config, "hidden_size"))],
    [key("feed_forward_length"), uint32Value(count(config, "intermediate_size"))],
    [key("attention.head_count"), uint32Value(count(config, "num_attention_heads"))],
    [key("attention.layer_norm_epsilon"), { type: "float32", value: floatIn(config, "layer_norm_eps") }],
    [key("attention.causal"), { type: "bool", value: false }],
    [key("pooling_type"), uint32Value(pooling)],
    ["tokenizer.ggml.token_type_count", uint32Value(count(config, "type_vocab_size"))],
  ]);
  if (encoder.ranks && labels > 1) all.set(key("classifier.output_labels"), labelNames(config, labels));
  return all;
}

function labelNames({ id2label: names }: Config, labels: number): NewValue {
  const labelTexts = typeof names === "object" && names !== null ? (names as Record<string, unknown>) : {};
  const values = Array.from({ length: labels }, (_, i) => String(labelTexts[String(i)] ?? `LABEL_${i}`).slice(0, 80));
  return { type: "array", of: "string", values };
}

/** Names of Hugging Face without the prefix of the class. */
export function encoderTensors({ ranks }: Encoder, layers: number): TensorName[] {
  const pair = (gguf: string, hf: string): TensorName[] =>
    ["weight", "bias"].map((part) => ({
      gguf: `${gguf}.${part}`,
      hf: [`${hf}.${part}`],
      change: "same",
      optional: false,
    }));
  const table = (gguf: string, hf: string) => pair(gguf, hf).slice(0, 1);
  const layer = (i: number) => {
    const [to, from] = [(part: string) => `blk.${i}.${part}`, (part: string) => `encoder.layer.${i}.${part}`];
    return [
      ...pair(to("attn_q"), from("attention.self.query")),
      ...pair(to("attn_k"), from("attention.self.key")),
      ...pair(to("attn_v"), from("attention.self.value")),
      ...pair(to("attn_output"), from("attention.output.dense")),
      ...pair(to("attn_output_norm"), from("attention.output.LayerNorm")),
      ...pair(to("ffn_up"), from("intermediate.dense")),
      ...pair(to("ffn_down"), from("output.dense")),
      ...pair(to("layer_output_norm"), from("output.LayerNorm")),
    ];
  };
  return [
    ...table("token_embd", "embeddings.word_embeddings"),
    ...table("token_types", "embeddings.token_type_embeddings"),
    ...table("position_embd", "embeddings.position_embeddings"),
    ...pair("token_embd_norm", "embeddings.LayerNorm"),
    ...Array.from({ length: layers }, (_, i) => layer(i)).flat(),
    ...(ranks ? [...pair("cls", "pooler.dense"), ...pair("cls.output", "classifier")] : []),
  ];
}

/** Heads for other tasks, and tables that are computed. A reranker needs the pooler. */
export const isUnusedInEncoder = (name: string, { ranks }: Encoder): boolean =>
  name === "embeddings.position_ids" || name.startsWith("cls.") || (!ranks && name.startsWith("pooler."));

/** The name without the prefix of the class. Old files call the weights of a norm gamma and beta. */
export const plainEncoderName = (name: string): string =>
  name
    .replace(/^bert\./, "")
    .replace(/\.gamma$/, ".weight")
    .replace(/\.beta$/, ".bias");
