/** The contents of a local storage: files named by their sha256, and what to do when one of them is damaged. */
import { mkdirSync, readdirSync, renameSync, statSync } from "node:fs";
import { type FileHandle, mkdir, open, readdir, unlink } from "node:fs/promises";
import { dirname, join } from "node:path";
import { MIB } from "../../lib/units.ts";
import * as files from "../files.ts";
import { DamagedError, HASHED_FIRST_BYTES, type OnDamage, wrongHash, wrongSize } from "./damage.ts";
import type { Verified } from "./storage.ts";

const PAUSE_MS = 10; // after each MiB that is verified in the background: at most 100 MiB a second, a tenth of a core

type OpenContent = { file: FileHandle; ino: number };

/**
 * objects/ab/cdef…  content by its sha256
 * damaged/abcdef…   content that did not have the hash of its name. It is kept for the operator until the same content is
 *                   put again or no key names it
 */
export function openObjects(root: string, onDamage: OnDamage) {
  const dirs = { objects: join(root, "objects"), damaged: join(root, "damaged") };
  const pathOf = (sha256: string) => join(dirs.objects, sha256.slice(0, 2), sha256.slice(2));
  const damaged = new Set(namesIn(dirs.damaged));

  /** Directories of content whose own entry is on disk, or soon: none is made before something lies in it. */
  const shards = new Map<string, Promise<void>>();

  function shard(dir: string): Promise<void> {
    const known = shards.get(dir);
    if (known) return known;
    const making = mkdir(dir, { recursive: true, mode: 0o700 }).then(() => files.syncDir(dirs.objects));
    shards.set(dir, making);
    making.catch(() => shards.delete(dir)); // the callers that wait get the error; the next one tries again
    return making;
  }

  /** Also replaces equal content: the old file may be damaged, and `temp` was written and hashed just now. */
  async function keep(temp: string, sha256: string) {
    const path = pathOf(sha256);
    await shard(dirname(path));
    await files.renameDurably(temp, path);
    await forget(sha256);
  }

  async function forget(sha256: string) {
    if (damaged.delete(sha256)) await unlink(join(dirs.damaged, sha256)).catch(() => {}); // an operator removed it
  }

  /** Moves damaged content away, unless a put has replaced it meanwhile. Nothing may await between both. */
  function quarantine(sha256: string, ino: number, why: string): DamagedError {
    const path = pathOf(sha256);
    const error = new DamagedError(path, why);
    try {
      if (statSync(path).ino !== ino) return error;
      mkdirSync(dirs.damaged, { recursive: true, mode: 0o700 });
      renameSync(path, join(dirs.damaged, sha256));
      damaged.add(sha256);
    } catch {
      // The content is gone, or the disk is read-only. The next reader finds the damage again.
    }
    onDamage(error);
    return error;
  }

  /** Undefined: not there. Throws DamagedError for another size, and for another hash if small content is read whole. */
  async function openContent({ sha256, bytes }: files.Written, isWhole: boolean): Promise<OpenContent | undefined> {
    const path = pathOf(sha256);
    if (damaged.has(sha256)) throw new DamagedError(path, "it was moved to the folder damaged of the storage");
    let file: FileHandle;
    try {
      file = await open(path, "r");
    } catch (error) {
      if (files.errorCode(error) === "ENOENT") return undefined;
      throw new files.StorageError(path, "read", error);
    }
    try {
      const { size, ino } = await file.stat();
      if (size !== bytes) throw quarantine(sha256, ino, wrongSize(size, bytes));
      if (isWhole && bytes <= HASHED_FIRST_BYTES) {
        const found = files.sha256Bytes(await readAll(file, bytes));
        if (found !== sha256) throw quarantine(sha256, ino, wrongHash(found, sha256));
      }
      return { file, ino };
    } catch (error) {
      await file.close();
      throw files.asStorageError(path, "read", error);
    }
  }

  /** Reads the contents whose first byte `isDue`, slowly, and moves damaged ones away. */
  async function verify(isDue: (firstByte: number) => boolean, signal?: AbortSignal): Promise<Verified> {
    const result: Verified = { objects: 0, bytes: 0, damaged: 0 };
    for (const name of await readdir(dirs.objects)) {
      if (!isDue(Number.parseInt(name, 16))) continue;
      for (const rest of await readdir(join(dirs.objects, name))) {
        if (signal?.aborted) return result;
        const file = await open(pathOf(name + rest), "r").catch(() => undefined); // swept or replaced meanwhile
        if (!file) continue;
        try {
          const { ino } = await file.stat();
          const { bytes, sha256 } = await hashSlowly(file, signal);
          if (signal?.aborted) return result;
          result.objects++;
          result.bytes += bytes;
          if (sha256 === name + rest) continue;
          quarantine(name + rest, ino, wrongHash(sha256, name + rest));
          result.damaged++;
        } finally {
          await file.close();
        }
      }
    }
    return result;
  }

  return { dir: dirs.objects, pathOf, keep, forget, damaged, quarantine, openContent, verify };
}

function namesIn(dir: string): string[] {
  try {
    return readdirSync(dir);
  } catch (error) {
    if (files.errorCode(error) === "ENOENT") return [];
    throw files.asStorageError(dir, "read", error);
  }
}

async function readAll(file: FileHandle, bytes: number): Promise<Uint8Array> {
  const content = Buffer.allocUnsafe(bytes);
  for (let at = 0; at < bytes; ) {
    const { bytesRead } = await file.read(content, at, bytes - at, at);
    if (bytesRead === 0) return content.subarray(0, at);
    at += bytesRead;
  }
  return content;
}

async function hashSlowly(file: FileHandle, signal: AbortSignal | undefined): Promise<files.Written> {
  const hasher = new Bun.CryptoHasher("sha256");
  const buffer = Buffer.allocUnsafe(MIB);
  for (let bytes = 0; ; await Bun.sleep(PAUSE_MS)) {
    const { bytesRead } = await file.read(buffer, 0, buffer.length, bytes);
    hasher.update(buffer.subarray(0, bytesRead));
    bytes += bytesRead;
    if (bytesRead < buffer.length || signal?.aborted) return { bytes, sha256: hasher.digest("hex") };
  }
}
