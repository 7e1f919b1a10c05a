import { randomBytes } from "node:crypto";
import { closeSync, constants, fsyncSync, openSync, readSync, renameSync, unlinkSync, writeSync } from "node:fs";
import { type FileHandle, open, readdir, readFile, rename, stat, unlink } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import type { z } from "zod";
import { errorText } from "../lib/error_text.ts";
import { takingTurns } from "../lib/turns.ts";
import { MIB } from "../lib/units.ts";
import { failpoint } from "./failpoint.ts";

/**
 * A file is either the old one or the whole new one, after any crash: written under a temporary name in the same
 * directory, flushed, renamed, and the directory flushed too. What a failure leaves behind, `cleanTemp` removes.
 */
export type StorageFault = "full" | "read_only" | "denied" | "io";

const FIXES: Record<StorageFault, string> = {
  full: "the disk is full. Free some space, or point data_dir at a larger disk",
  read_only: "the file system is read-only. Remount it writable, or point data_dir elsewhere",
  denied: "permission denied. Let the user that runs verk own this path",
  io: "input/output error",
};
const REASONS: Record<string, StorageFault> = {
  ENOSPC: "full",
  EDQUOT: "full",
  EROFS: "read_only",
  EACCES: "denied",
  EPERM: "denied",
};

/** The disk's fault, not the caller's. */
export class StorageError extends Error {
  readonly reason: StorageFault;
  /** The message without the path, with what to do: for callers of the API. */
  get advice() {
    return FIXES[this.reason];
  }
  constructor(
    readonly path: string,
    doing: string,
    cause: unknown,
  ) {
    const reason = REASONS[errorCode(cause) ?? ""] ?? "io";
    const detail = reason === "io" ? ` (${errorText(cause)})` : "";
    super(`Cannot ${doing} ${path}: ${FIXES[reason]}${detail}`, { cause });
    this.name = "StorageError";
    this.reason = reason;
  }
}

/** The content was not what it was said to be. Nothing was kept. */
export class ContentError extends Error {
  constructor(
    readonly reason: "too_large" | "sha256_mismatch",
    message: string,
  ) {
    super(message);
    this.name = "ContentError";
  }
}

export const errorCode = (error: unknown): string | undefined => {
  const code = (error as { code?: unknown } | null)?.code;
  return typeof code === "string" ? code : undefined;
};

const TEMP = /^\.verk-tmp-[0-9a-f]{16}(-journal|-wal|-shm)?$/; // and what SQLite keeps beside a file that it writes
export const tempPath = (dir: string) => join(dir, `.verk-tmp-${randomBytes(8).toString("hex")}`);

/** Counts bytes while they are written. */
export type Meter = {
  /** Throws if the bytes may not be stored. What the same meter gave before is on the disk then. */
  take(bytes: number): void;
};

/**
 * For files of the server itself, and for workers, whose files the server counts. test/meta/stored_bytes.test.ts lists who
 * may use it.
 */
export const UNCOUNTED: Meter = { take() {} };

type WriteOptions = { mode?: number };

/** For small files of the server itself. */
export async function writeFileAtomic(path: string, body: string | Uint8Array, { mode = 0o600 }: WriteOptions = {}) {
  const bytes = typeof body === "string" ? new TextEncoder().encode(body) : body;
  await writeStreamAtomic(path, [bytes], { mode, meter: UNCOUNTED });
}

/** For the few places that cannot wait: the start, the exit, and a worker inside a native loop. */
export function writeFileAtomicSync(path: string, body: string | Uint8Array, { mode = 0o600 }: WriteOptions = {}) {
  const temp = tempPath(dirname(path));
  try {
    const fd = openSync(temp, "wx", mode);
    try {
      const bytes = typeof body === "string" ? new TextEncoder().encode(body) : body;
      for (let at = 0; at < bytes.length; ) at += writeSync(fd, bytes, at);
      fsyncSync(fd);
    } finally {
      closeSync(fd);
    }
    failpoint("files.before_rename");
    renameSync(temp, path);
  } catch (error) {
    try {
      unlinkSync(temp);
    } catch {
      // it was never made, or already renamed
    }
    throw asStorageError(path, "write", error);
  }
  failpoint("files.after_rename");
  syncDirSync(dirname(path));
}

export type Chunks = AsyncIterable<Uint8Array> | Iterable<Uint8Array> | ReadableStream<Uint8Array>;
export type StreamOptions = WriteOptions & {
  /** Counts each chunk before it is written. */
  meter: Meter;
  maxBytes?: number;
  expectedSha256?: string;
  /** Sees each chunk before it is written. */
  onChunk?: (chunk: Uint8Array) => void;
};
export type Written = { bytes: number; sha256: string };

/**
 * Any length in constant memory. Throws ContentError (too_large, sha256_mismatch), StorageError, or what the source
 * or the meter threw; in each case the path is untouched and no temporary file remains.
 */
export async function writeStreamAtomic(path: string, body: Chunks, options: StreamOptions): Promise<Written> {
  const temp = tempPath(dirname(path));
  try {
    const written = await writeTemp(temp, body, options);
    await renameDurably(temp, path);
    return written;
  } catch (error) {
    await unlink(temp).catch(() => {}); // it was never made, or already renamed
    throw asStorageError(path, "write", error);
  }
}

/** Writes and flushes `temp` without giving it its final name: for content whose name is its hash. */
export async function writeTemp(temp: string, body: Chunks, options: StreamOptions): Promise<Written> {
  const { meter, maxBytes = Number.POSITIVE_INFINITY, expectedSha256, onChunk, mode = 0o600 } = options;
  const hasher = new Bun.CryptoHasher("sha256");
  let bytes = 0;
  const file = await open(temp, "wx", mode);
  try {
    for await (const chunk of body as AsyncIterable<Uint8Array>) {
      bytes += chunk.byteLength;
      if (bytes > maxBytes) throw new ContentError("too_large", `The content is larger than ${maxBytes} bytes`);
      meter.take(chunk.byteLength);
      hasher.update(chunk);
      onChunk?.(chunk);
      await writeAll(file, chunk);
    }
    await file.sync();
  } finally {
    await file.close();
  }
  const sha256 = hasher.digest("hex");
  if (expectedSha256 !== undefined && expectedSha256.toLowerCase() !== sha256)
    throw new ContentError("sha256_mismatch", `The content's sha256 is ${sha256}, not ${expectedSha256}`);
  return { bytes, sha256 };
}

async function writeAll(file: FileHandle, chunk: Uint8Array) {
  for (let at = 0; at < chunk.byteLength; ) at += (await file.write(chunk, at)).bytesWritten;
}

export async function renameDurably(from: string, to: string) {
  failpoint("files.before_rename");
  await rename(from, to);
  failpoint("files.after_rename");
  await syncDir(dirname(to));
}

/** A rename or unlink is only durable once its directory is flushed. */
export async function syncDir(dir: string) {
  const handle = await open(dir, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

export function syncDirSync(dir: string) {
  const fd = openSync(dir, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

/** Fills `into` from `position` on. Returns the number of bytes, which is smaller only if the file ends before. */
export async function readInto(file: FileHandle, into: Uint8Array, position: number): Promise<number> {
  for (let done = 0; done < into.byteLength; ) {
    const { bytesRead } = await file.read(into, done, into.byteLength - done, position + done);
    if (bytesRead === 0) return done;
    done += bytesRead;
  }
  return into.byteLength;
}

export function readIntoSync(fd: number, into: Uint8Array, position: number): number {
  for (let done = 0; done < into.byteLength; ) {
    const bytesRead = readSync(fd, into, done, into.byteLength - done, position + done);
    if (bytesRead === 0) return done;
    done += bytesRead;
  }
  return into.byteLength;
}

/** Returns `into`, filled. `tooShort` makes the error for a file that ends before. */
export async function readExactly<B extends Uint8Array>(
  file: FileHandle,
  into: B,
  position: number,
  tooShort: () => Error,
): Promise<B> {
  if ((await readInto(file, into, position)) < into.byteLength) throw tooShort();
  return into;
}

export function readExactlySync<B extends Uint8Array>(fd: number, into: B, position: number, tooShort: () => Error): B {
  if (readIntoSync(fd, into, position) < into.byteLength) throw tooShort();
  return into;
}

export const sha256Bytes = (bytes: string | Uint8Array): string =>
  new Bun.CryptoHasher("sha256").update(bytes).digest("hex");

export async function sha256File(path: string): Promise<string> {
  const hasher = new Bun.CryptoHasher("sha256");
  const file = await open(path, "r");
  const buffer = Buffer.allocUnsafe(MIB);
  const turn = takingTurns(); // reads of cached files end at once, without a turn of the event loop
  try {
    for (;;) {
      await turn();
      const { bytesRead } = await file.read(buffer, 0, buffer.length);
      if (bytesRead === 0) return hasher.digest("hex");
      hasher.update(buffer.subarray(0, bytesRead));
    }
  } finally {
    await file.close();
  }
}

/** Undefined when there is no such file; an error that names the file when it is not what the schema says. */
export async function readJson<S extends z.ZodType>(path: string, schema: S): Promise<z.output<S> | undefined> {
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (error) {
    if (errorCode(error) === "ENOENT") return undefined;
    throw new StorageError(path, "read", error);
  }
  try {
    return schema.parse(JSON.parse(text));
  } catch (cause) {
    throw new Error(`${path} is damaged: ${(cause as Error).message}`, { cause });
  }
}

/** Removes what crashed writers left in `dir` (not below it). Younger files may belong to a live writer. */
export async function cleanTemp(dir: string, olderThanMs: number, nowMs = Date.now()): Promise<number> {
  let removed = 0;
  for (const name of await readdir(dir)) {
    if (!TEMP.test(basename(name))) continue;
    const path = join(dir, name);
    const stats = await stat(path).catch(() => undefined);
    if (!stats || nowMs - stats.mtimeMs < olderThanMs) continue;
    await unlink(path).catch(() => {}); // another cleaner was faster
    removed++;
  }
  return removed;
}

/** Errors of the file system become StorageError; everything else (a source that broke, a failpoint) passes as it is. */
export function asStorageError(path: string, doing: string, error: unknown): unknown {
  const fromSystem = error instanceof Error && typeof (error as { syscall?: unknown }).syscall === "string";
  return fromSystem && errorCode(error) ? new StorageError(path, doing, error) : error;
}
