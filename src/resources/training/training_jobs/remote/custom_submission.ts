/** Turns a custom job into a plan for a node, and its code, rows and volumes into files that the node needs. */
import type { Ctx } from "../../../../context.ts";
import type { TarEntry } from "../../../../lib/archive/tar_write.ts";
import { tarChunks } from "../../../../lib/archive/tar_write.ts";
import { MIB, MINUTE_MS } from "../../../../lib/units.ts";
import { writeTemp } from "../../../../platform/files.ts";
import { type Handle, jobDir } from "../../../../platform/providers/protocol.ts";
import { inputFile, stagingDir } from "../../../../platform/providers/staging.ts";
import type { InputFile, Submission } from "../../../../platform/providers/types.ts";
import { LostKeyError } from "../../../../platform/storage/storage.ts";
import { DATASET } from "../../../../sandbox/jail/custom_jail.ts";
import * as secrets from "../../../access/secrets/service.ts";
import { spaceMeter } from "../../../data/storage_usage/service.ts";
import * as mounting from "../../../data/volumes/materialize.ts";
import * as volumes from "../../../data/volumes/service.ts";
import * as artifacts from "../../code_artifacts/service.ts";
import { mustFit, writeRows } from "../custom/files.ts";
import { envOf, resourcesOf } from "../custom/resources.ts";
import { leftMs } from "../custom/spec.ts";
import { isReadOnly } from "../policy.ts";
import { rowsOf } from "../state/inputs.ts";
import type { JobRow } from "../table.ts";

/** Minutes of a scheduler beyond those of the command: to begin and end, and for each amount of files to copy. */
const CUSTOM_EXTRA = 10;
const CUSTOM_COPY_MIB = 1024;

export async function customSubmission(ctx: Ctx, job: JobRow, handle: Handle): Promise<Submission> {
  const { custom_jobs, sessions, network, connectors, sandbox } = ctx.config;
  const { memory_mib, cpus, disk_mib } = resourcesOf(ctx, job);
  const staging = stagingDir(ctx.config.data_dir, job.id);
  const names = job.volumes.map(({ name }) => name);
  mustFit(ctx, job.workspaceId, names, disk_mib * MIB);
  const code = job.codeArtifactId === null ? null : artifacts.mustGet(ctx, job.workspaceId, job.codeArtifactId);
  const inputs: InputFile[] = [];
  const add = async (name: string, write: (path: string) => Promise<unknown>) => {
    await write(`${staging}/${name}`);
    inputs.push(await inputFile(`${jobDir(job.id)}/inputs/${name}`, `${staging}/${name}`));
  };
  if (code) await add("code", (path) => writeStored(ctx, code.storageKey, path));
  const hasRows = job.datasetId !== null && job.snapshotNumber !== null;
  if (job.datasetId !== null && job.snapshotNumber !== null) {
    const rows = rowsOf(ctx, job, job.datasetId, job.snapshotNumber);
    await add(DATASET, (path) => writeRows(ctx, rows, path));
  }
  for (const [i, { name }] of job.volumes.entries())
    await add(`volume-${i}.tar`, (path) => writeVolume(ctx, job, name, path));
  return {
    inputs,
    plan: {
      handle,
      task: {},
      custom: {
        command: job.command ?? "",
        seed: job.seed,
        resources: { memory_mib, cpus, disk_mib },
        limits: { processes: custom_jobs.processes, entries: sessions.disk_entries, wallMs: leftMs(ctx, job) },
        env: envOf(ctx, job),
        secrets: Object.fromEntries(job.secrets.map((name) => [name, secrets.reveal(ctx, job.workspaceId, name)])),
        network:
          job.network === "guarded"
            ? {
                allow_private: network.allow_private,
                allow: [...network.allow],
                max_bytes: custom_jobs.network_mib * MIB,
                connect_ms: connectors.connect_timeout_ms,
              }
            : null,
        code: code?.format ?? null,
        hasRows,
        volumes: job.volumes.map((volume) => ({ path: volume.mount_path, read_only: isReadOnly(volume) })),
      },
      gpus: job.gpuType === "cpu" ? 0 : job.gpuCount,
      gpu_type: job.gpuType,
      minutes: Math.ceil(leftMs(ctx, job) / MINUTE_MS) + CUSTOM_EXTRA + Math.ceil(disk_mib / CUSTOM_COPY_MIB),
      rewards: null,
      limits: { sampleMs: sandbox.sample_timeout_ms, batchMs: sandbox.batch_timeout_ms },
      settings: { "sandbox.require": sandbox.require },
    },
  };
}

async function writeStored(ctx: Ctx, key: string, path: string) {
  const opened = await ctx.storage.get(key);
  if (!opened) throw new LostKeyError(key);
  using meter = spaceMeter(ctx);
  await writeTemp(path, opened.stream, { meter });
}

async function writeVolume(ctx: Ctx, job: JobRow, name: string, path: string) {
  const row = volumes.mustGet(ctx, job.workspaceId, name);
  const entries = [...mounting.filesOf(ctx, row)].map(({ path: at, sizeBytes: size, storageKey }): TarEntry => {
    async function* content() {
      const opened = await ctx.storage.get(storageKey);
      if (!opened) throw new LostKeyError(storageKey);
      yield* opened.stream;
    }
    return { name: at, size, content };
  });
  using meter = spaceMeter(ctx);
  await writeTemp(path, tarChunks(entries), { meter });
}
