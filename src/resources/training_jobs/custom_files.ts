/** The directory of a custom job: code, rows and volumes before its command runs, volumes and output after. */
import { closeSync, constants, createReadStream, openSync } from "node:fs";
import { chmod, chown, mkdir, open, readdir, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Ctx } from "../../context.ts";
import type { TarEntry } from "../../lib/archive/tar_write.ts";
import { AppError } from "../../lib/errors.ts";
import { takingTurns } from "../../lib/turns.ts";
import { errorCode, StorageError, sha256File } from "../../platform/files.ts";
import { openRows } from "../../platform/rows/file.ts";
import { liveBytes } from "../../platform/rows/live.ts";
import { CallError, removeDirAt } from "../../sandbox/beneath_calls.ts";
import { emptyDirectory } from "../../sandbox/beneath_tree.ts";
import { sessionOwner } from "../../sandbox/session_jail.ts";
import * as artifacts from "../code_artifacts/service.ts";
import * as volumes from "../volumes/service.ts";
import { placesOf } from "./places.ts";
import { rowsOf } from "./plan.ts";
import type { JobRow, JobVolume } from "./table.ts";

export const OUTPUT = "output";
export const DATASET = "dataset.jsonl";
const MOST_MS = 600_000;
const WORKSPACE = "/workspace/";

export type CustomPlaces = { workspace: string; aside: string };
/** What a volume held when it was copied: path → sha256. */
export type Copied = { volume: JobVolume; dir: string; writable: boolean; hashes: Map<string, string> };

const placesIn = (ctx: Ctx, job: JobRow): CustomPlaces => {
  const { work } = placesOf(ctx, job.id);
  return { workspace: join(work, "workspace"), aside: join(work, "volumes") };
};

/** Everything that a command may have made of it. Idempotent. */
export async function clear(ctx: Ctx, jobId: string): Promise<void> {
  const { dir } = placesOf(ctx, jobId);
  try {
    const parent = openSync(dir, constants.O_RDONLY | constants.O_DIRECTORY);
    try {
      await emptyDirectory(parent, "work", MOST_MS);
      removeDirAt(parent, "work");
    } finally {
      closeSync(parent);
    }
  } catch (error) {
    if (errorCode(error) !== "ENOENT" && !(error instanceof CallError && error.code === "ENOENT")) throw error;
  }
}

export async function build(ctx: Ctx, job: JobRow): Promise<CustomPlaces & { copied: Copied[] }> {
  const places = placesIn(ctx, job);
  const owner = sessionOwner(ctx.config.data_dir) ?? null;
  await clear(ctx, job.id);
  for (const dir of [places.workspace, places.aside]) await mkdir(dir, { recursive: true, mode: 0o755 });
  if (job.codeArtifactId !== null) {
    const artifact = artifacts.mustGet(ctx, job.workspaceId, job.codeArtifactId);
    await artifacts.unpack(ctx, artifact, { dir: places.workspace, owner });
  }
  if (job.datasetId !== null && job.snapshotNumber !== null)
    await writeRows(rowsOf(ctx, job, job.datasetId, job.snapshotNumber), join(places.workspace, DATASET));
  const copied: Copied[] = [];
  for (const [i, volume] of job.volumes.entries()) copied.push(await copy(ctx, job, volume, { places, i }));
  await makeDirs(join(places.workspace, OUTPUT), owner);
  if (owner) for (const path of [places.workspace, join(places.workspace, DATASET)]) await give(path, owner);
  return { ...places, copied };
}

type Owner = { uid: number; gid: number };

const give = (path: string, { uid, gid }: Owner) =>
  chown(path, uid, gid).catch((error) => {
    if (errorCode(error) !== "ENOENT") throw error; // no dataset
  });

async function makeDirs(path: string, owner: Owner | null) {
  const first = await mkdir(path, { recursive: true, mode: 0o755 });
  if (first === undefined || !owner) return;
  for (let dir = path; dir.length >= first.length; dir = dirname(dir)) await give(dir, owner);
}

async function writeRows({ path, head_row }: { path: string; head_row: number }, to: string) {
  const rows = openRows(path, "read");
  const file = await open(to, "wx", 0o644);
  const turn = takingTurns();
  try {
    for (const { bytes } of liveBytes(rows, head_row)) {
      await file.write(bytes);
      await turn();
    }
  } finally {
    rows.close();
    await file.close();
  }
}

type Where = { places: CustomPlaces; i: number };

/** As in a session: below /workspace it can be written, elsewhere only read. */
async function copy(ctx: Ctx, job: JobRow, volume: JobVolume, { places, i }: Where): Promise<Copied> {
  const writable = volume.mount_path.startsWith(WORKSPACE);
  const dir = writable
    ? join(places.workspace, volume.mount_path.slice(WORKSPACE.length))
    : join(places.aside, String(i));
  const row = volumes.mustGet(ctx, job.workspaceId, volume.name);
  const owner = sessionOwner(ctx.config.data_dir) ?? null;
  const hashes = new Map<string, string>();
  await makeDirs(dir, owner);
  for (const file of volumes.mounting.filesOf(ctx, row)) {
    const path = join(dir, file.path);
    await makeDirs(dirname(path), owner);
    if ((await volumes.mounting.copyOut(ctx, file, path, { share: false })) === "gone") continue;
    await chmod(path, writable ? 0o644 : 0o444);
    if (owner) await give(path, owner);
    hashes.set(file.path, file.sha256);
  }
  return { volume, dir, writable, hashes };
}

/** Regular files below a directory in which nothing runs any more. Links and the like are no files. */
export async function filesBelow(dir: string, within = ""): Promise<string[]> {
  const found: string[] = [];
  for (const entry of await readdir(join(dir, within), { withFileTypes: true })) {
    const path = within === "" ? entry.name : `${within}/${entry.name}`;
    if (entry.isDirectory()) found.push(...(await filesBelow(dir, path)));
    else if (entry.isFile()) found.push(path);
  }
  return found.sort();
}

/** What the command changed goes back. Each that cannot is told, and the rest goes on. */
export async function writeBack(ctx: Ctx, job: JobRow, { volume, dir, hashes }: Copied): Promise<string[]> {
  const faults: string[] = [];
  const attempt = async (path: string, work: () => unknown) => {
    try {
      await work();
    } catch (error) {
      const known = error instanceof AppError || error instanceof StorageError;
      if (!known) ctx.log.error("a volume was not written back", { job: job.id, error });
      faults.push(`${volume.name}/${path} was not written back: ${known ? error.message : "the log has the details"}`);
    }
  };
  await attempt("", async () => {
    const there = await filesBelow(dir);
    for (const path of there)
      await attempt(path, () => takeBack(ctx, job, { volume, dir, path, before: hashes.get(path) }));
    for (const path of hashes.keys())
      if (!there.includes(path))
        await attempt(path, () => removed(ctx, job, volume, { path, sha256: hashes.get(path) }));
  });
  return faults;
}

type Changed = { volume: JobVolume; dir: string; path: string; before: string | undefined };

async function takeBack(ctx: Ctx, job: JobRow, { volume, dir, path, before }: Changed) {
  const full = join(dir, path);
  if ((await sha256File(full)) === before) return;
  const row = volumes.mustGet(ctx, job.workspaceId, volume.name);
  const { size } = await stat(full);
  await volumes.mounting.takeIn(ctx, row, { path, sizeBytes: size, body: createReadStream(full) });
}

function removed(
  ctx: Ctx,
  job: JobRow,
  volume: JobVolume,
  { path, sha256 }: { path: string; sha256: string | undefined },
) {
  const row = volumes.mustGet(ctx, job.workspaceId, volume.name);
  if (volumes.findFile(ctx, row, path)?.sha256 !== sha256) return; // somebody else changed it
  volumes.removeFile(ctx, job.workspaceId, volume.name, path);
}

/** What it left in /workspace/output; none: it left nothing. */
export async function outputOf({ workspace }: CustomPlaces): Promise<TarEntry[]> {
  const dir = join(workspace, OUTPUT);
  const names = await filesBelow(dir).catch(() => []); // it may have removed the directory itself
  return Promise.all(
    names.map(async (name) => ({
      name,
      size: (await stat(join(dir, name))).size,
      content: () => createReadStream(join(dir, name)),
    })),
  );
}
