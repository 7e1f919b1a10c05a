/** Reads files of a data directory into chunks. A file is read once, also when the backup needs several attempts. */
import { Database } from "bun:sqlite";
import { type Dirent, existsSync, rmSync, statSync } from "node:fs";
import { type FileHandle, open, readdir } from "node:fs/promises";
import { join } from "node:path";
import { AppError, UsageError } from "../../lib/errors.ts";
import { MIB } from "../../lib/units.ts";
import { failpoint } from "../failpoint.ts";
import { errorCode, type Meter, readInto, tempPath, UNCOUNTED } from "../files.ts";
import type { BackupFile } from "./manifest.ts";
import type { Repository } from "./repository.ts";

const CHUNK_BYTES = 4 * MIB;

export type Counter = { storedBytes: number };

/** The chunks of one file; undefined if it is not there. A file that grows meanwhile is read up to its end. */
export async function readChunks(
  repository: Repository,
  from: string,
  path: string,
  counter: Counter,
): Promise<BackupFile | undefined> {
  const file = await open(from, "r").catch(absent);
  if (file === undefined) return undefined;
  const buffer = Buffer.allocUnsafe(CHUNK_BYTES);
  const chunks: string[] = [];
  let bytes = 0;
  try {
    for (;;) {
      const filled = await readInto(file, buffer, bytes);
      if (filled === 0) return { path, bytes, chunks };
      const { sha256, stored } = await repository.putChunk(buffer.subarray(0, filled));
      if (stored) counter.storedBytes += filled;
      chunks.push(sha256);
      bytes += filled;
    }
  } finally {
    await file.close();
  }
}

/**
 * The folder for copies of databases, and what counts their bytes. Nothing is written into the data directory: root would
 * leave files that its owner cannot use.
 */
export type Staging = { tempDir: string; meter?: Meter };

/**
 * Runs `body` on a consistent copy of a SQLite file; undefined if the file is not there. The copy has the same pages, so a
 * later copy shares most chunks with it.
 *
 * An open read transaction keeps SQLite from overwriting what this copy needs. Either the log is copied into the file
 * already, and then nothing writes to the file. Or the log is not restarted, and then it has every page that is written to
 * the file meanwhile. The log is read after the file, so both together are a state of the database.
 */
export async function withCopy<T>(
  path: string,
  { tempDir, meter = UNCOUNTED }: Staging,
  body: (copy: string) => Promise<T>,
): Promise<T | undefined> {
  if (!existsSync(path)) return undefined;
  const copy = tempPath(tempDir);
  try {
    if (!(await copyUnlessDeleted(path, copy, meter))) return undefined;
    const database = new Database(copy, { readwrite: true, create: false });
    database.run("PRAGMA wal_checkpoint(TRUNCATE)");
    database.close();
    return await body(copy);
  } finally {
    for (const suffix of ["", "-wal", "-shm"]) rmSync(copy + suffix, { force: true });
  }
}

const OPEN_ATTEMPTS = 20;
const PAUSE_MS = 50;

/** SQLite fails in several ways on a file whose parts are being deleted. False: the file is gone. */
async function copyUnlessDeleted(path: string, copy: string, meter: Meter): Promise<boolean> {
  for (let left = OPEN_ATTEMPTS; ; left--) {
    try {
      return await copyDatabase(path, copy, meter);
    } catch (error) {
      if (!existsSync(path)) return false;
      if (error instanceof AppError) throw error; // the disk has no space for the copy
      if (left === 0)
        throw new UsageError(`Cannot read the database ${path}: ${(error as Error).message}`, 1, { cause: error });
      rmSync(copy, { force: true });
      await Bun.sleep(PAUSE_MS);
    }
  }
}

/** False if the file was deleted or replaced meanwhile. */
async function copyDatabase(path: string, copy: string, meter: Meter): Promise<boolean> {
  const ino = inodeOf(path);
  const db = new Database(path, { readonly: true });
  const files: FileHandle[] = [];
  try {
    db.run("PRAGMA busy_timeout = 10000");
    db.run("BEGIN");
    db.query("SELECT count(*) FROM sqlite_schema").get(); // the transaction begins with the first read
    const log = await open(`${path}-wal`, "r").catch(absent); // opened now: it is unlinked with the file
    if (log) files.push(log);
    const file = await open(path, "r").catch(absent);
    if (file) files.push(file);
    if (file === undefined || (await file.stat()).ino !== ino) return false;
    await copyBytes(file, copy, meter);
    failpoint("backup.before_log");
    if (log) await copyLog(log, `${copy}-wal`, meter);
    return inodeOf(path) === ino;
  } finally {
    db.close();
    for (const file of files) await file.close(); // last: closing a descriptor ends the locks of this process on the file
  }
}

const inodeOf = (path: string) => statSync(path, { throwIfNoEntry: false })?.ino;

const WAL_HEADER_BYTES = 32;
const LOG_ATTEMPTS = 100;

/** The log can be restarted while it is read, if the file has all of it. Then its header differs, and it is read again. */
async function copyLog(log: FileHandle, copy: string, meter: Meter) {
  for (let left = LOG_ATTEMPTS; left > 0; left--) {
    const before = await headerOf(log);
    if (before === undefined) return;
    rmSync(copy, { force: true });
    await copyBytes(log, copy, meter);
    if ((await headerOf(log))?.equals(before)) return;
  }
  throw new Error("The log of the database is restarted again and again");
}

/** Undefined: the log is empty. */
async function headerOf(log: FileHandle): Promise<Buffer | undefined> {
  const header = Buffer.alloc(WAL_HEADER_BYTES);
  return (await readInto(log, header, 0)) === WAL_HEADER_BYTES ? header : undefined;
}

async function copyBytes(from: FileHandle, path: string, meter: Meter) {
  const to = await open(path, "wx", 0o600);
  const buffer = Buffer.allocUnsafe(MIB);
  try {
    for (let at = 0; ; ) {
      const { bytesRead } = await from.read(buffer, 0, buffer.length, at);
      if (bytesRead === 0) return;
      meter.take(bytesRead);
      for (let done = 0; done < bytesRead; )
        done += (await to.write(buffer, done, bytesRead - done, at + done)).bytesWritten;
      at += bytesRead;
    }
  } finally {
    await to.close();
  }
}

function absent(error: unknown): undefined {
  if (errorCode(error) === "ENOENT") return undefined;
  throw error;
}

/** Paths of the plain files below a folder, relative to `root`. Links and special files are left out. */
export async function* filesBelow(
  root: string,
  folder: string,
  skip: (path: string) => boolean,
): AsyncGenerator<string> {
  const entries = await readdir(join(root, folder), { withFileTypes: true }).catch((error: unknown): Dirent[] => {
    if (errorCode(error) === "ENOENT") return [];
    throw error;
  });
  for (const entry of entries) {
    const path = `${folder}/${entry.name}`;
    if (skip(path)) continue;
    if (entry.isDirectory()) yield* filesBelow(root, path, skip);
    else if (entry.isFile()) yield path;
  }
}
