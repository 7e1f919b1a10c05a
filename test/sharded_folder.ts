/** A Hugging Face folder of any size with one sparse shard for each layer: on the disk it takes almost nothing. */
import { rmSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { familyOf } from "../src/lib/checkpoints/families.ts";
import { encodeSafetensorsHeader } from "../src/workers/checkpoints/safetensors.ts";
import { tensorNames } from "../src/workers/checkpoints/tensors.ts";
import { writeFolder } from "./hugging_face.ts";

export type ShardedSize = { layers: number; hidden: number };

const VOCAB = 288;
const HEAD = 64;

export function writeShardedFolder(dir: string, { layers, hidden }: ShardedSize) {
  const config = { num_hidden_layers: layers, hidden_size: hidden, intermediate_size: 4 * hidden, head_dim: HEAD };
  const heads = { num_attention_heads: hidden / HEAD, num_key_value_heads: hidden / HEAD };
  writeFolder(dir, { config: { ...config, ...heads } });
  rmSync(join(dir, "model.safetensors"));
  const map: Record<string, string> = {};
  for (const [shard, names] of shardsOf(layers)) {
    const tensors = names.map((name) => ({ name, dtype: "BF16", shape: shapeOf(name, hidden) }));
    for (const name of names) map[name] = shard;
    const header = encodeSafetensorsHeader(tensors);
    const size = tensors.reduce((sum, { shape }) => sum + 2 * shape.reduce((product, each) => product * each, 1), 0);
    writeFileSync(join(dir, shard), header);
    truncateSync(join(dir, shard), header.byteLength + size);
  }
  writeFileSync(join(dir, "model.safetensors.index.json"), JSON.stringify({ weight_map: map }));
}

/** The names of the tensors in each shard. */
function shardsOf(layers: number): Map<string, string[]> {
  const family = familyOf("llama");
  if (!family) throw new Error("llama");
  const shards = new Map<string, string[]>();
  for (const { hf, gguf, optional } of tensorNames(family, { layers, experts: 0 })) {
    if (optional && gguf !== "output.weight") continue;
    const shard = `model-${(/layers\.(\d+)\./.exec(hf[0] ?? "")?.[1] ?? "0").padStart(5, "0")}.safetensors`;
    shards.set(shard, [...(shards.get(shard) ?? []), ...hf]);
  }
  return shards;
}

function shapeOf(name: string, hidden: number): number[] {
  const forward = 4 * hidden;
  if (/norm/.test(name)) return [hidden];
  if (/embed_tokens|lm_head/.test(name)) return [VOCAB, hidden];
  if (/(gate|up)_proj/.test(name)) return [forward, hidden];
  return /down_proj/.test(name) ? [hidden, forward] : [hidden, hidden];
}
