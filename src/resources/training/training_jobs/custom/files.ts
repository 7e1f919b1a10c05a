/** Builds the directory of a custom job: code, rows and volumes, before its command runs. */
import type { Ctx } from "../../../../context.ts";
import { formatBytes } from "../../../../lib/bytes.ts";
import { AppError } from "../../../../lib/errors.ts";
import { takingTurns } from "../../../../lib/turns.ts";
import { MIB } from "../../../../lib/units.ts";
import { writeTemp } from "../../../../platform/files.ts";
import { openRows } from "../../../../platform/rows/file.ts";
import { liveBytes } from "../../../../platform/rows/live.ts";
import type { ForeignDir } from "../../../../sandbox/files/foreign_dir.ts";
import { makeSandboxDir, workspaceOf } from "../../../../sandbox/files/sandbox_dir.ts";
import { openStage, type Stage } from "../../../../sandbox/files/stage.ts";
import { removeTree } from "../../../../sandbox/files/trees.ts";
import { DATASET, OUTPUT } from "../../../../sandbox/jail/custom_jail.ts";
import { sessionOwner } from "../../../../sandbox/jail/session_jail.ts";
import { spaceMeter } from "../../../data/storage_usage/service.ts";
import * as mounting from "../../../data/volumes/materialize.ts";
import * as volumes from "../../../data/volumes/service.ts";
import * as artifacts from "../../code_artifacts/service.ts";
import { unpack } from "../../code_artifacts/unpack.ts";
import { isReadOnly } from "../policy.ts";
import { rowsOf } from "../state/inputs.ts";
import { pathsOf } from "../state/paths.ts";
import type { JobRow, JobVolume } from "../table.ts";
import { resourcesOf } from "./resources.ts";

const WORKSPACE = "/workspace/";

/** The copy of a volume. `hashes`: path → sha256. `below`: its path in /workspace; null if it is read-only. */
export type VolumeCopy = { volume: JobVolume; below: string | null; hashes: Map<string, string> };
export type JobDir = { work: ForeignDir; copies: VolumeCopy[] };

/** Throws if the volumes are larger than what the job may hold. */
export function mustFit(ctx: Ctx, workspaceId: string, names: readonly string[], diskBytes: number) {
  const bytes = names.reduce((sum, name) => sum + volumes.mustGet(ctx, workspaceId, name).totalBytes, 0);
  if (bytes <= diskBytes) return;
  throw new AppError(
    "quota_exceeded",
    `volumes: have ${formatBytes(bytes)} together, and the job may hold ${formatBytes(diskBytes)}: raise resources.disk_mib`,
    { param: "/resources/disk_mib" },
  );
}

/** Idempotent. */
export const removeJobDir = (ctx: Ctx, jobId: string): Promise<void> => removeTree(pathsOf(ctx, jobId).work);

export async function buildJobDir(ctx: Ctx, job: JobRow): Promise<JobDir> {
  const { work } = pathsOf(ctx, job.id);
  const names = job.volumes.map(({ name }) => name);
  mustFit(ctx, job.workspaceId, names, resourcesOf(ctx, job).disk_mib * MIB);
  const owner = sessionOwner(ctx.config.data_dir);
  await makeSandboxDir(work, owner);
  if (job.codeArtifactId !== null) {
    const artifact = artifacts.mustGet(ctx, job.workspaceId, job.codeArtifactId);
    await unpack(ctx, artifact, { dir: workspaceOf(work), owner: owner ?? null });
  }
  if (job.datasetId !== null && job.snapshotNumber !== null) {
    const rows = rowsOf(ctx, job, job.datasetId, job.snapshotNumber);
    await staging(openStage(work, "", owner), (stage) =>
      stage.put(DATASET, 0o644, (temp) => writeRows(ctx, rows, temp)),
    );
  }
  const copies: VolumeCopy[] = [];
  for (const [i, volume] of job.volumes.entries()) copies.push(await copyVolume(ctx, job, { work, volume, i }));
  openStage(work, OUTPUT, owner).close();
  return { work, copies };
}

async function staging<T>(stage: Stage, work: (stage: Stage) => Promise<T>): Promise<T> {
  try {
    return await work(stage);
  } finally {
    stage.close();
  }
}

type Rows = { path: string; head_row: number };

export async function writeRows(ctx: Ctx, { path, head_row }: Rows, to: string): Promise<"copied"> {
  using meter = spaceMeter(ctx);
  const rows = openRows(path, "read");
  const turn = takingTurns();
  async function* lines() {
    for (const { bytes } of liveBytes(rows, head_row)) {
      yield bytes;
      await turn();
    }
  }
  try {
    await writeTemp(to, lines(), { meter });
    return "copied";
  } finally {
    rows.close();
  }
}

type Source = { work: ForeignDir; volume: JobVolume; i: number };

/** A read-only volume lies outside /workspace and is mounted from there, so that no write to it succeeds. */
async function copyVolume(ctx: Ctx, job: JobRow, { work, volume, i }: Source): Promise<VolumeCopy> {
  const below = isReadOnly(volume) ? null : volume.mount_path.slice(WORKSPACE.length);
  const row = volumes.mustGet(ctx, job.workspaceId, volume.name);
  const mode = below === null ? 0o444 : 0o644;
  const hashes = new Map<string, string>();
  const owner = sessionOwner(ctx.config.data_dir);
  const share = below === null && owner === undefined;
  await staging(openStage(work, below ?? i, owner), async (stage) => {
    for (const file of mounting.filesOf(ctx, row)) {
      const copyOut = (temp: string) => mounting.copyOut(ctx, file, temp, { share });
      if ((await stage.put(file.path, mode, copyOut)) !== "gone") hashes.set(file.path, file.sha256);
    }
  });
  return { volume, below, hashes };
}
