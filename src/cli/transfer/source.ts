import { existsSync, readdirSync, statSync } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { UsageError } from "../../lib/errors.ts";
import { nearest } from "../../lib/text/nearest.ts";
import { errorCode } from "../../platform/files.ts";

export type Chunk = Uint8Array<ArrayBuffer>;

/** A file or standard input that a command sends. It is read only as fast as it is consumed. */
export type Source = {
  /** The file's own name; empty for standard input. */
  name: string;
  /** Undefined for a pipe or a terminal, which have no length. */
  size: number | undefined;
  /** The consumer owns each chunk. A source with a length can be read again, completely or in part. */
  chunks: (stretch?: Stretch) => AsyncGenerator<Chunk>;
  close: () => Promise<void>;
};

export type Stretch = { from: number; to: number };

const CHUNK_BYTES = 1 << 20;

/** True for a pipe or a device, which can be read or written only once. */
export function isStream(path: string): boolean {
  const stat = statSync(path, { throwIfNoEntry: false });
  return stat !== undefined && !stat.isFile() && !stat.isDirectory();
}

/** Opens a file, or standard input for `-`. */
export async function openSource(path: string): Promise<Source> {
  if (path === "-") return standardInput();
  try {
    const file = await open(path, "r");
    const stat = await file.stat();
    if (stat.isDirectory()) {
      await file.close();
      throw new UsageError(`Cannot read ${path}: it is a folder, not a file`);
    }
    const size = stat.isFile() ? stat.size : undefined;
    const read = ({ from = 0, to = size }: Partial<Stretch> = {}) => readFile(file, path, from, to);
    return { name: basename(path), size, chunks: read, close: () => file.close() };
  } catch (error) {
    if (error instanceof UsageError) throw error;
    throw new UsageError(`Cannot read ${path}: ${WHY[errorCode(error) ?? ""] ?? (error as Error).message}`);
  }
}

const WHY: Record<string, string> = { ENOENT: "there is no such file", EACCES: "permission denied" };

function standardInput(): Source {
  const reader = Bun.stdin.stream().getReader();
  async function* chunks(): AsyncGenerator<Chunk> {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  }
  // A pending read would keep the process alive.
  return { name: "", size: undefined, chunks, close: () => reader.cancel() };
}

/** Reads exactly the size at the time of opening, because that length was sent to the server. */
async function* readFile(file: FileHandle, path: string, from: number, to: number | undefined): AsyncGenerator<Chunk> {
  for (let at = from; to === undefined || at < to; ) {
    const buffer = new Uint8Array(Math.min(CHUNK_BYTES, (to ?? Number.POSITIVE_INFINITY) - at));
    const { bytesRead } = await file.read(buffer, 0, buffer.length, to === undefined ? null : at);
    if (bytesRead === 0 && to !== undefined)
      throw new UsageError(
        `${path} became shorter while it was read. Try again when no program writes to the file.`,
        1,
      );
    if (bytesRead === 0) return;
    at += bytesRead;
    yield buffer.subarray(0, bytesRead);
  }
}

/** The error about a path that the user typed, with the file of its folder that is meant. */
export function noFile(from: string, path: string, dir = "."): string {
  const folder = dirname(resolve(dir, path));
  const close = existsSync(folder) ? nearest(basename(path), readdirSync(folder)) : undefined;
  return `${from}: there is no file ${path}${close === undefined ? "" : `. Did you mean ${join(dirname(path), close)}?`}`;
}
