/** A merged model as a Hugging Face folder: config, tokenizer and safetensors, as the entries of an archive. */
import type { TarEntry } from "../../../lib/archive/tar_write.ts";
import type { Family } from "../../../lib/checkpoints/families.ts";
import { string } from "../../../lib/gguf/facts.ts";
import type { Header } from "../../../lib/gguf/parse.ts";
import type { Backend } from "../../../native/ggml/ggml.ts";
import { configOf, configText } from "../../checkpoints/config.ts";
import { ropeTensors } from "../../checkpoints/rope.ts";
import { round } from "../../checkpoints/values.ts";
import { WorkerError } from "../../protocol.ts";
import { readVocabulary, type Vocabulary } from "./gguf_tokens.ts";
import { tokenizerConfig, tokenizerJson } from "./hf_tokenizer.ts";
import { type HfType, indexOf, mustFamily, OTHER_VARIANT, planShards, shardChunks, whole } from "./hf_weights.ts";
import { type MergedTensors, type MergeOptions, openMerged } from "./merged_gguf.ts";

export type FolderOptions = Pick<MergeOptions, "base" | "learned"> & {
  type: HfType;
  /** Bytes of a shard; default 5 GB. */
  limit?: number;
};

/** The entries can be read until `close` is called. */
export async function openHfFolder(backend: Backend, options: FolderOptions) {
  const merged = await openMerged(backend, options);
  try {
    return { entries: await entriesOf(merged, options), close: merged.close };
  } catch (error) {
    await merged.close();
    throw error;
  }
}

async function entriesOf(merged: MergedTensors, { type, limit }: FolderOptions): Promise<TarEntry[]> {
  const { header } = merged;
  const family = mustFamily(string(header, "general.architecture") ?? "");
  const vocabulary = await readVocabulary(header, merged.readSpan);
  const config = await configFrom(merged, family, { vocabulary, type });
  const [layers, headLength] = [Number(config["num_hidden_layers"]), Number(config["head_dim"])];
  const experts = Number(config["num_experts"] ?? config["num_local_experts"] ?? 0);
  const shards = planShards(header, family, { layers, experts, type, ...(limit === undefined ? {} : { limit }) });
  const weights = shards.map((shard) => ({
    name: shard.name,
    size: shard.size,
    content: () => shardChunks(shard, { merged, type, headLength }),
  }));
  return [
    text("config.json", configText(config)),
    json("generation_config.json", generationConfig(vocabulary)),
    json("tokenizer.json", tokenizerJson(vocabulary)),
    json("tokenizer_config.json", tokenizerConfig(vocabulary, Number(config["max_position_embeddings"]))),
    ...(shards.length > 1 ? [json("model.safetensors.index.json", indexOf(shards))] : []),
    ...weights,
  ];
}

const json = (name: string, value: object) => text(name, JSON.stringify(value, null, 2));

function text(name: string, content: string): TarEntry {
  const bytes = new TextEncoder().encode(`${content}\n`);
  return {
    name,
    size: bytes.byteLength,
    async *content() {
      yield bytes;
    },
  };
}

const DTYPES = { F32: "float32", F16: "float16", BF16: "bfloat16" } as const;

type ConfigOptions = { vocabulary: Vocabulary; type: HfType };

async function configFrom(merged: MergedTensors, family: Family, { vocabulary, type }: ConfigOptions) {
  const { header } = merged;
  const { tensors, metadata } = header;
  const prefix = `${family.architecture}.`;
  const fields = [...metadata].flatMap(([key, { value }]) =>
    key.startsWith(prefix) ? [[key.slice(prefix.length), value] as const] : [],
  );
  const shape = configOf(new Map<string, unknown>(fields), family, !tensors.has("output.weight"));
  const config: Record<string, unknown> = {
    ...shape,
    vocab_size: tensors.get("token_embd.weight")?.dims[1] ?? vocabulary.tokens.length,
    ...(vocabulary.bos === null ? {} : { bos_token_id: vocabulary.bos }),
    eos_token_id: oneOrMany(vocabulary.eos),
    pad_token_id: padOf(vocabulary), // some classes have a default beyond a small vocabulary
    ...(family.architecture === "qwen2" ? {} : { attention_bias: tensors.has("blk.0.attn_q.bias") }),
    torch_dtype: DTYPES[type],
  };
  if (tensors.has("rope_freqs.weight")) {
    const factors = await ropeFactors(merged, "rope_freqs.weight");
    return { ...config, rope_scaling: llama3Scaling(config, factors, header) };
  }
  if (!tensors.has("rope_factors_long.weight")) return config;
  const factors = async (kind: string) =>
    Array.from(await ropeFactors(merged, `rope_factors_${kind}.weight`), (value) => round(value));
  // Phi3Config of transformers 4 takes exactly these three fields.
  const rope_scaling = {
    type: "longrope",
    short_factor: await factors("short"),
    long_factor: await factors("long"),
  };
  return { ...config, rope_scaling };
}

const oneOrMany = (ids: readonly number[]) => (ids.length > 1 ? ids : (ids[0] ?? null));

/** Without a token of its own the end of a text pads, as the tokenizer's file says too. */
const padOf = ({ pad, eos }: Vocabulary) => pad ?? eos[0] ?? null;

const generationConfig = (vocabulary: Vocabulary) => ({
  ...(vocabulary.bos === null ? {} : { bos_token_id: vocabulary.bos }),
  eos_token_id: oneOrMany(vocabulary.eos),
  pad_token_id: padOf(vocabulary),
});

async function ropeFactors({ header, content }: MergedTensors, name: string): Promise<Float32Array> {
  const stored = header.tensors.get(name);
  if (!stored) throw new WorkerError("config", `The file has no tensor ${name}`);
  return new Float32Array((await whole(content(stored, "F32"), stored.elements * 4)).buffer);
}

/** GGUF has the factors, config.json the numbers that they follow from. All known models use these limits. */
function llama3Scaling(config: Readonly<Record<string, unknown>>, factors: Float32Array, header: Header) {
  const scaling = {
    rope_type: "llama3",
    factor: Math.max(...factors),
    low_freq_factor: 1,
    high_freq_factor: 4,
    original_max_position_embeddings: 8192,
  };
  const computed =
    ropeTensors({ ...config, rope_scaling: scaling }, Number(config["head_dim"])).get("rope_freqs.weight") ?? [];
  const fits =
    computed.length === factors.length && computed.every((value, i) => Math.abs(value - factors[i]!) < 1e-3 * value);
  if (fits) return scaling;
  throw new WorkerError(
    "config",
    `The model cannot be exported as a Hugging Face folder: the rotation factors of ${string(header, "general.name") ?? "this file"} follow no known rule${OTHER_VARIANT}`,
  );
}
