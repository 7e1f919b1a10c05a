/** The contents of a local storage: files named by their sha256, and what to do when one of them is damaged. */
import { mkdirSync, readdirSync, renameSync, statSync } from "node:fs";
import { type FileHandle, mkdir, open, readdir, unlink } from "node:fs/promises";
import { dirname, join } from "node:path";
import { MIB } from "../../lib/units.ts";
import * as files from "../files.ts";
import { BlockSums } from "./block_sums.ts";
import { DamagedError, HASHED_FIRST_BYTES, type OnDamage, wrongHash, wrongSize } from "./damage.ts";
import { openSums } from "./local_sums.ts";
import type { Verified } from "./storage.ts";
import { type Blocks, type Part, verifiedPieces } from "./verified_reads.ts";

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
  const sums = openSums(root);

  /** Directories of content whose own entry is on disk, or soon: none is made before something lies in it. */
  const shards = new Map<string, Promise<void>>();

  function shard(dir: string): Promise<void> {
    const existing = shards.get(dir);
    if (existing) return existing;
    const making = mkdir(dir, { recursive: true, mode: 0o700 }).then(() => files.syncDir(dirs.objects));
    shards.set(dir, making);
    making.catch(() => shards.delete(dir)); // the callers that wait get the error; the next one tries again
    return making;
  }

  /** Also replaces equal content: the old file may be damaged, and `temp` was written and hashed just now. */
  async function keep(temp: string, { sha256, bytes }: files.Written, blockSums: BigUint64Array) {
    const path = pathOf(sha256);
    await shard(dirname(path));
    await files.renameDurably(temp, path);
    await forget(sha256);
    if (bytes > HASHED_FIRST_BYTES) await sums.write(sha256, blockSums);
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

  /** Undefined: not there. Throws DamagedError for another size, and for another hash of small content. */
  async function openContent({ sha256, bytes }: files.Written): Promise<OpenContent | undefined> {
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
      if (bytes <= HASHED_FIRST_BYTES) {
        const actual = files.sha256Bytes(await readAll(file, bytes));
        if (actual !== sha256) throw quarantine(sha256, ino, wrongHash(actual, sha256));
      }
      return { file, ino };
    } catch (error) {
      await file.close();
      throw files.asStorageError(path, "read", error);
    }
  }

  /** Small content has no sums: it was hashed when it was opened. */
  const blocksOf = ({ file, ino }: OpenContent, ref: files.Written): Blocks => ({
    file,
    path: pathOf(ref.sha256),
    totalBytes: ref.bytes,
    readSums: async (first, count) => (ref.bytes > HASHED_FIRST_BYTES ? sums.read(ref, first, count) : undefined),
    onWrong: (at) => examine(ref, ino, at),
  });

  /** Contents that are hashed because a block did not have its sum. Readers of the same content wait together. */
  const examinations = new Map<string, Promise<void>>();

  /** Throws DamagedError if the content is damaged. Otherwise its sums were, and they are written again. */
  function examine({ sha256 }: files.Written, ino: number, at: number): Promise<void> {
    const running = examinations.get(sha256);
    if (running) return running;
    const examination = (async () => {
      const hashed = await hashFile(pathOf(sha256));
      if (hashed.sha256 !== sha256) throw quarantine(sha256, ino, `the block at byte ${at} has changed`);
      await sums.write(sha256, hashed.sums);
    })().finally(() => examinations.delete(sha256));
    examinations.set(sha256, examination);
    return examination;
  }

  /** Contents of which the rest of a part is verified in the background, one part of each at a time. */
  const behind = new Set<string>();

  /** Resolves when the first bytes of the part are verified. The rest follows: see ADR 0040. */
  async function verifiedPath(ref: files.Written, { offset, bytes }: Part, firstBytes: number): Promise<string> {
    const first = Math.min(bytes, firstBytes);
    await verifyPart(ref, { offset, bytes: first });
    if (bytes > first && !behind.has(ref.sha256)) {
      behind.add(ref.sha256);
      verifyPart(ref, { offset: offset + first, bytes: bytes - first })
        .catch(() => {}) // damage was reported, and the next reader is refused
        .finally(() => behind.delete(ref.sha256));
    }
    return pathOf(ref.sha256);
  }

  async function verifyPart(ref: files.Written, part: Part) {
    if (ref.bytes <= HASHED_FIRST_BYTES || part.bytes === 0 || !(await sums.exists(ref))) return;
    const opened = await openContent(ref);
    if (!opened) return; // swept meanwhile
    try {
      for await (const _ of verifiedPieces(blocksOf(opened, ref), part));
    } finally {
      await opened.file.close();
    }
  }

  /** Reads the contents whose first byte `isDue`, and contents without block sums, slowly. Moves damaged ones away. */
  async function verify(isDue: (firstByte: number) => boolean, signal?: AbortSignal): Promise<Verified> {
    const result: Verified = { objects: 0, bytes: 0, damaged: 0 };
    for (const name of await readdir(dirs.objects)) {
      const shardIsDue = isDue(Number.parseInt(name, 16));
      for (const rest of await readdir(join(dirs.objects, name))) {
        if (signal?.aborted) return result;
        const sha256 = name + rest;
        const file = await open(pathOf(sha256), "r").catch(() => undefined); // swept or replaced meanwhile
        if (!file) continue;
        try {
          const { ino, size } = await file.stat();
          const isLarge = size > HASHED_FIRST_BYTES;
          if (!shardIsDue && !(isLarge && !(await sums.exists({ sha256, bytes: size })))) continue;
          const hashed = await hash(file, { pauseMs: PAUSE_MS, signal });
          if (signal?.aborted) return result;
          result.objects++;
          result.bytes += hashed.bytes;
          if (hashed.sha256 === sha256 && isLarge) await sums.ensure(sha256, hashed.sums);
          if (hashed.sha256 === sha256) continue;
          quarantine(sha256, ino, wrongHash(hashed.sha256, sha256));
          result.damaged++;
        } finally {
          await file.close();
        }
      }
    }
    return result;
  }

  return {
    dir: dirs.objects,
    pathOf,
    keep,
    forget,
    damaged,
    quarantine,
    openContent,
    blocksOf,
    verifiedPath,
    verify,
    removeSums: sums.remove,
  };
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
  return content.subarray(0, await files.readInto(file, content, 0));
}

type Hashed = files.Written & { sums: BigUint64Array };

async function hash(file: FileHandle, slowly?: { pauseMs: number; signal: AbortSignal | undefined }): Promise<Hashed> {
  const hasher = new Bun.CryptoHasher("sha256");
  const sums = new BlockSums();
  const buffer = Buffer.allocUnsafe(MIB);
  for (let bytes = 0; ; ) {
    const { bytesRead } = await file.read(buffer, 0, buffer.length, bytes);
    hasher.update(buffer.subarray(0, bytesRead));
    sums.add(buffer.subarray(0, bytesRead));
    bytes += bytesRead;
    if (bytesRead === 0 || slowly?.signal?.aborted) return { bytes, sha256: hasher.digest("hex"), sums: sums.finish() };
    if (slowly) await Bun.sleep(slowly.pauseMs);
  }
}

async function hashFile(path: string): Promise<Hashed> {
  const file = await open(path, "r");
  try {
    return await hash(file);
  } finally {
    await file.close();
  }
}
