/** Converts a folder with one sparse shard for each layer, and prints the most memory that the process ever held. */
import { mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { familyOf } from "../../src/lib/checkpoints/families.ts";
import type { Quantization } from "../../src/lib/checkpoints/mix.ts";
import { encodeSafetensorsHeader } from "../../src/lib/checkpoints/safetensors.ts";
import { tensorNames } from "../../src/lib/checkpoints/tensors.ts";
import { convert } from "../../src/workers/inspector/convert/convert.ts";
import { filesIn, writeFolder } from "../hugging_face.ts";

export type FolderTask = { layers: number; hidden: number; quantize: Quantization | null };
export type FolderMemory = { bytes: number; peakBytes: number };

const { layers, hidden, quantize } = JSON.parse(await Bun.stdin.text()) as FolderTask;
const forward = 4 * hidden;
const vocab = 288;
const dir = mkdtempSync(join(tmpdir(), "verk-shards-"));
try {
  const config = { num_hidden_layers: layers, hidden_size: hidden, intermediate_size: forward, head_dim: 64 };
  const heads = { num_attention_heads: hidden / 64, num_key_value_heads: hidden / 64 };
  writeFolder(dir, { config: { ...config, ...heads } });
  rmSync(join(dir, "model.safetensors"));
  writeShards();
  const into = join(dir, "model.gguf");
  const { bytes } = await convert({ files: filesIn(dir), name: "big", into, quantize, dataDir: "", onProgress() {} });
  const peak = /VmHWM:\s+(\d+)/.exec(readFileSync("/proc/self/status", "utf8"))?.[1];
  console.log(JSON.stringify({ bytes, peakBytes: Number(peak) * 1024 } satisfies FolderMemory));
} finally {
  rmSync(dir, { recursive: true, force: true });
}

function writeShards() {
  const family = familyOf("llama");
  if (!family) throw new Error("llama");
  const shards = new Map<string, string[]>();
  for (const { hf, gguf, optional } of tensorNames(family, { layers, experts: 0 })) {
    if (optional && gguf !== "output.weight") continue;
    const shard = `model-${(/layers\.(\d+)\./.exec(hf[0] ?? "")?.[1] ?? "0").padStart(5, "0")}.safetensors`;
    shards.set(shard, [...(shards.get(shard) ?? []), ...hf]);
  }
  const map: Record<string, string> = {};
  for (const [shard, names] of shards) {
    const tensors = names.map((name) => ({ name, dtype: "BF16", shape: shapeOf(name) }));
    for (const name of names) map[name] = shard;
    const header = encodeSafetensorsHeader(tensors);
    const size = tensors.reduce((sum, { shape }) => sum + 2 * shape.reduce((product, each) => product * each, 1), 0);
    writeFileSync(join(dir, shard), header);
    truncateSync(join(dir, shard), header.byteLength + size);
  }
  writeFileSync(join(dir, "model.safetensors.index.json"), JSON.stringify({ weight_map: map }));
}

function shapeOf(name: string): number[] {
  if (/norm/.test(name)) return [hidden];
  if (/embed_tokens|lm_head/.test(name)) return [vocab, hidden];
  if (/(gate|up)_proj/.test(name)) return [forward, hidden];
  return /down_proj/.test(name) ? [hidden, forward] : [hidden, hidden];
}
