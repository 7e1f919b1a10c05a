import { mkdirSync } from "node:fs";
import { statfs } from "node:fs/promises";
import { availableParallelism, loadavg } from "node:os";
import { MIB } from "../../lib/units.ts";
import { VERSION } from "../../lib/version.ts";
import { groups } from "../../native/bundle/embedded.ts";
import { platform } from "../../native/platform/index.ts";
import { listGpus, memoryLimitBytes } from "../../platform/machine/hardware.ts";
import { MOST_GPUS, type NodeInfo } from "../../platform/providers/protocol.ts";

export async function nodeInfo(root: string): Promise<NodeInfo> {
  mkdirSync(root, { recursive: true, mode: 0o700 });
  const disk = await statfs(root);
  const gpus = groups["llama-cuda"] === undefined ? [] : await listGpus(); // without the library a GPU is of no use
  return {
    version: VERSION,
    architecture: platform.machine,
    cpus: availableParallelism(),
    memory_bytes: memoryLimitBytes(),
    free_bytes: disk.bavail * disk.bsize,
    gpus: gpus.slice(0, MOST_GPUS).map(({ type, memoryTotalMib, memoryUsedMib, utilizationPercent: busy }) => ({
      type,
      memory_bytes: memoryTotalMib * MIB,
      used_bytes: memoryUsedMib * MIB,
      ...(busy === null ? {} : { utilization_percent: busy }),
    })),
    load: loadavg()[0] ?? 0,
  };
}
