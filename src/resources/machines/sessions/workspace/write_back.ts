/**
 * Writes changed files of a session back to its writable volumes. Changes are found by comparing with the last copy.
 * The newest writer wins. A file that was also changed in the volume is not deleted. The session keeps its own files.
 */
import { closeSync } from "node:fs";
import { z } from "zod";
import type { Ctx } from "../../../../context.ts";
import { AppError } from "../../../../lib/errors.ts";
import { takingTurns } from "../../../../lib/turns.ts";
import { StorageError } from "../../../../platform/files.ts";
import { chunksOf } from "../../../../sandbox/files/chunks.ts";
import { type Scan, scanFiles } from "../../../../sandbox/files/collect.ts";
import type { ForeignDir } from "../../../../sandbox/files/foreign_dir.ts";
import { readNote, writeNote } from "../../../../sandbox/files/notes.ts";
import { type Beneath, openWorkspace } from "../../../../sandbox/files/sandbox_dir.ts";
import * as mounting from "../../../data/volumes/materialize.ts";
import * as volumes from "../../../data/volumes/service.ts";
import type { VolumeRow } from "../../../data/volumes/table.ts";
import type { VolumeErrors } from "../schema.ts";
import type { Mount, SessionRow } from "../table.ts";
import { dirOf } from "./paths.ts";

/** Path, stamp, hash. The stamp differs if the content may have changed. */
const RecordLine = z.tuple([z.string(), z.string(), z.string()]);
/** Earlier versions wrote all files into one line. */
const FormerLine = z.array(RecordLine);

/** The files of a writable volume at its last write-back, by path. Changes are found by comparing with it. */
export type VolumeRecord = Map<string, { stamp: string; sha256: string }>;

export const writeVolumeRecord = (dir: ForeignDir, n: number, record: VolumeRecord) =>
  writeNote(dir, n, linesOf(record));

function* linesOf(record: VolumeRecord) {
  for (const [path, { stamp, sha256 }] of record) yield JSON.stringify([path, stamp, sha256]);
}

export async function readVolumeRecord(dir: ForeignDir, n: number): Promise<VolumeRecord> {
  const record: VolumeRecord = new Map();
  for await (const text of readNote(dir, n))
    for (const [path, stamp, sha256] of tuplesOf(text, n)) record.set(path, { stamp, sha256 });
  return record;
}

function tuplesOf(text: string, n: number): z.infer<typeof FormerLine> {
  try {
    const value: unknown = JSON.parse(text);
    return Array.isArray(value) && typeof value[0] !== "string" ? FormerLine.parse(value) : [RecordLine.parse(value)];
  } catch (cause) {
    throw new Error(`volumes/${n}.json of a session is damaged`, { cause });
  }
}

type SyncContext = { ctx: Ctx; row: SessionRow; beneath: Beneath; mount: Mount; errors: VolumeErrors };

const MOST_ERRORS = 20;
const HIDDEN =
  "some directories cannot be read or are too deep: their files are not written back, and no file of the volume is deleted meanwhile";

/** Records the files of a volume after it was copied into the session. */
export async function recordCopy(ctx: Ctx, row: SessionRow, i: number, hashes: ReadonlyMap<string, string>) {
  const beneath = openWorkspace(dirOf(ctx, row.id));
  try {
    const { files } = await scan(beneath, (row.volumes[i] as Mount).mountPath);
    await writeVolumeRecord(
      dirOf(ctx, row.id),
      i,
      new Map([...files].map(([path, { stamp }]) => [path, { stamp, sha256: hashes.get(path) ?? "" }])),
    );
  } finally {
    beneath.close();
  }
}

/** Returns the files that could not be written back. Runs one at a time for each session. */
export function writeBack(ctx: Ctx, row: SessionRow): Promise<VolumeErrors> {
  if (row.volumes.every(({ readOnly }) => readOnly)) return Promise.resolve([]);
  const live = ctx.state.sessions.of(row);
  const written = live.syncing.then(() => syncAll(ctx, row));
  live.syncing = written.catch(() => {});
  return written;
}

async function syncAll(ctx: Ctx, row: SessionRow): Promise<VolumeErrors> {
  const errors: VolumeErrors = [];
  const beneath = openWorkspace(dirOf(ctx, row.id));
  try {
    for (const [i, mount] of row.volumes.entries())
      if (!mount.readOnly)
        await attempt({ ctx, row, beneath, mount, errors }, "", (volume, context) => sync(context, volume, i));
  } finally {
    beneath.close();
  }
  return errors.slice(0, MOST_ERRORS);
}

/** Adds a failure to `errors`, so that the other files go on. */
async function attempt(
  context: SyncContext,
  path: string,
  work: (volume: VolumeRow, context: SyncContext) => Promise<void>,
) {
  const { ctx, row, mount, errors } = context;
  try {
    const volume = volumes.findAny(ctx, mount.volumeId);
    if (!volume) throw new AppError("resource_not_found", `Volume ${mount.name} was deleted`);
    await work(volume, context);
  } catch (error) {
    const reason = error instanceof StorageError ? error.advice : error instanceof AppError ? error.message : undefined;
    if (!(error instanceof AppError)) ctx.log.error("writing back a volume failed", { session: row.id, error });
    errors.push({ volume: mount.name, path, message: reason ?? "the log of the server has the details" });
  }
}

async function sync(context: SyncContext, volume: VolumeRow, i: number) {
  const { ctx, row, beneath, mount, errors } = context;
  const dir = dirOf(ctx, row.id);
  const record = await readVolumeRecord(dir, i);
  const { files, skipped, hidden } = await scan(beneath, mount.mountPath);
  for (const [path, message] of skipped)
    errors.push({ volume: mount.name, path, message: `${message}: a volume cannot store it` });
  if (hidden) errors.push({ volume: mount.name, path: "", message: HIDDEN });
  const turn = takingTurns();
  let changed = false;
  for (const [path, { stamp }] of files) {
    const before = record.get(path);
    if (before?.stamp === stamp) continue;
    changed = true;
    await turn();
    await attempt(context, path, async () => {
      record.set(path, { stamp, sha256: await send(context, volume, path, before?.sha256) });
    });
  }
  for (const [path, { sha256 }] of hidden ? [] : [...record]) {
    if (files.has(path) || skipped.has(path)) continue;
    changed = true;
    await turn();
    await attempt(context, path, async () => {
      const stored = volumes.findFile(ctx, volume, path);
      if (stored?.sha256 === sha256) volumes.removeFile(ctx, volume.workspaceId, volume.id, path);
      record.delete(path);
    });
  }
  if (changed) await writeVolumeRecord(dir, i, record);
}

/** Returns the hash of the file that the volume has now. A file is sent only if its content has changed. */
async function send({ ctx, beneath, mount }: SyncContext, volume: VolumeRow, path: string, before: string | undefined) {
  const { fd, stat } = beneath.openFile(`${mount.mountPath}/${path}`);
  try {
    const hasher = new Bun.CryptoHasher("sha256");
    for await (const chunk of chunksOf(fd, { offset: 0, length: stat.bytes })) hasher.update(chunk);
    const sha256 = hasher.digest("hex");
    if (sha256 === before) return sha256;
    const body = chunksOf(fd, { offset: 0, length: stat.bytes });
    const { row } = await mounting.takeIn(ctx, volume, { path, sizeBytes: stat.bytes, body });
    return row.sha256;
  } finally {
    closeSync(fd);
  }
}

async function scan(beneath: Beneath, mountPath: string): Promise<Scan> {
  const top = openTop(beneath, mountPath);
  try {
    return await scanFiles(top);
  } finally {
    closeSync(top);
  }
}

/** A mount point that was moved away is an error. It does not mean that all files were deleted. */
function openTop(beneath: Beneath, mountPath: string): number {
  try {
    return beneath.openDirectory(mountPath);
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    throw new AppError("invalid_request", `${mountPath} is not a directory any more: create it again`, {
      cause: error,
    });
  }
}
