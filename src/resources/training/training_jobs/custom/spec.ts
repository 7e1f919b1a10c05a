/** The jail of a custom job: mounts, environment and limits of its command. */
import type { Ctx } from "../../../../context.ts";
import { AppError } from "../../../../lib/errors.ts";
import { MIB, MINUTE_MS } from "../../../../lib/units.ts";
import { type Driver, gpuNodes, readDriver } from "../../../../platform/machine/gpu_nodes.ts";
import { volumeOf, workspaceOf } from "../../../../sandbox/files/sandbox_dir.ts";
import { SESSION_ENV, sessionMounts } from "../../../../sandbox/jail/session_root.ts";
import type { JailSpec } from "../../../../sandbox/jail/types.ts";
import { runTime } from "../../../money/billing/run_time.ts";
import { runtimeMs } from "../policy.ts";
import type { JobRow } from "../table.ts";
import { DATASET, type JobDir, OUTPUT } from "./files.ts";

const OPEN_FILES = 4096;
const TMP_SHARE = 4;

/** UUIDs of the leased cards, and their device nodes. */
export type Gpu = { cards: readonly string[]; nodes: readonly string[] };

/** Throws if the nodes cannot be matched to the cards: the job must not get the cards of others. */
export function nodesOf(cards: readonly string[], driver: () => Driver = readDriver): string[] {
  if (cards.length === 0) return [];
  try {
    return gpuNodes(cards, driver());
  } catch (error) {
    throw new AppError("unsupported_state", `The job cannot use its GPU: ${(error as Error).message}`, {
      param: "/gpu",
      cause: error,
    });
  }
}

type Inputs = { dir: JobDir; gpu: Gpu; secrets: Record<string, string> };

export function specOf(ctx: Ctx, job: JobRow, { dir: { work, copies }, gpu, secrets }: Inputs): JailSpec {
  const { memory_mib, processes, disk_mib, disk_entries: entries, allow_network } = ctx.config.sessions;
  const memoryBytes = Math.max(memory_mib * MIB, job.memoryBytes);
  const network = allow_network ? "host" : "none";
  const volumes = copies.flatMap(({ volume, below }, i) =>
    below === null ? [{ from: volumeOf(work, i), to: volume.mount_path, writable: false }] : [],
  );
  const limitMs = Math.min(
    job.maxRuntimeMs ?? Number.POSITIVE_INFINITY,
    ctx.config.training.max_runtime_minutes * MINUTE_MS,
  );
  return {
    argv: ["/bin/sh", "-c", job.command ?? ""],
    env: {
      ...ENV,
      CUDA_VISIBLE_DEVICES: gpu.cards.join(),
      ...secrets,
      VERK_JOB_ID: job.id,
      VERK_SEED: String(job.seed),
    },
    cwd: "/workspace",
    mounts: [
      ...sessionMounts({
        workspace: workspaceOf(work),
        volumes,
        network,
        tmpBytes: Math.floor(memoryBytes / TMP_SHARE),
      }),
      ...gpu.nodes.map((node) => ({ kind: "device" as const, from: node, to: node })),
    ],
    limits: {
      processes,
      memoryBytes,
      openFiles: OPEN_FILES,
      cpuSeconds: 0, // wallMs is the limit
      wallMs: Math.max(1000, limitMs - runtimeMs(job, runTime(ctx, job.id))),
      fileBytes: disk_mib * MIB,
      disk: { at: "/workspace", bytes: disk_mib * MIB, entries },
    },
    network,
    filter: "session",
  };
}

const ENV = {
  ...SESSION_ENV,
  PYTHONUNBUFFERED: "1", // the log must not lag behind
  VERK_DATASET: `/workspace/${DATASET}`,
  VERK_OUTPUT: `/workspace/${OUTPUT}`,
};
