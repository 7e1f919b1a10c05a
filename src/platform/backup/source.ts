/** Reads files of a data directory into chunks. A file is read once, also when the backup needs several attempts. */
import { Database } from "bun:sqlite";
import { type Dirent, existsSync, rmSync } from "node:fs";
import { open, readdir } from "node:fs/promises";
import { join } from "node:path";
import { MIB } from "../../lib/units.ts";
import { errorCode, tempPath } from "../files.ts";
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
  const file = await open(from, "r").catch((error: unknown) => {
    if (errorCode(error) === "ENOENT") return undefined;
    throw error;
  });
  if (file === undefined) return undefined;
  const buffer = Buffer.allocUnsafe(CHUNK_BYTES);
  const chunks: string[] = [];
  let bytes = 0;
  try {
    for (;;) {
      let filled = 0;
      while (filled < CHUNK_BYTES) {
        const { bytesRead } = await file.read(buffer, filled, CHUNK_BYTES - filled);
        if (bytesRead === 0) break;
        filled += bytesRead;
      }
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

/** Runs `body` on a consistent copy of a SQLite file; undefined if the file is not there. */
export async function withCopy<T>(
  path: string,
  tempDir: string,
  body: (copy: string) => Promise<T>,
): Promise<T | undefined> {
  if (!existsSync(path)) return undefined;
  const copy = tempPath(tempDir);
  try {
    const db = new Database(path, { readonly: true });
    try {
      db.run("PRAGMA busy_timeout = 10000");
      db.prepare("VACUUM INTO ?").run(copy);
    } finally {
      db.close();
    }
    return await body(copy);
  } finally {
    for (const suffix of ["", "-wal", "-shm"]) rmSync(copy + suffix, { force: true });
  }
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
