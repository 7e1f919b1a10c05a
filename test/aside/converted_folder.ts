/** Converts a folder with one sparse shard for each layer, and prints the most memory that the process ever held. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Quantization } from "../../src/lib/checkpoints/mix.ts";
import { convert } from "../../src/workers/inspector/convert/convert.ts";
import { filesIn } from "../hugging_face.ts";
import { type ShardedSize, writeShardedFolder } from "../sharded_folder.ts";

export type FolderTask = ShardedSize & { quantize: Quantization | null };
export type FolderMemory = { bytes: number; peakBytes: number };

const { quantize, ...size } = JSON.parse(await Bun.stdin.text()) as FolderTask;
const dir = mkdtempSync(join(tmpdir(), "verk-shards-"));
try {
  writeShardedFolder(dir, size);
  const into = join(dir, "model.gguf");
  const { bytes } = await convert({ files: filesIn(dir), name: "big", into, quantize, dataDir: "", onProgress() {} });
  const peak = /VmHWM:\s+(\d+)/.exec(readFileSync("/proc/self/status", "utf8"))?.[1];
  console.log(JSON.stringify({ bytes, peakBytes: Number(peak) * 1024 } satisfies FolderMemory));
} finally {
  rmSync(dir, { recursive: true, force: true });
}
