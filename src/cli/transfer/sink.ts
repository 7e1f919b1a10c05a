import { realpathSync, statSync } from "node:fs";
import { open } from "node:fs/promises";
import { resolve } from "node:path";
import { UsageError } from "../../lib/errors.ts";
import { ContentError, UNCOUNTED, writeStreamAtomic } from "../../platform/files.ts";
import { ApiError } from "../client.ts";
import { isStream } from "./source.ts";

/** Writes all chunks or throws. The checksum is verified if it is given. */
export type Sink = (chunks: AsyncIterable<Uint8Array>, expectedSha256?: string) => Promise<void>;

/** Replaces the file atomically and keeps its permissions. */
export const toFile =
  (path: string): Sink =>
  async (chunks, expectedSha256) => {
    if (isStream(path)) return toStream(path, chunks, expectedSha256);
    const there = statSync(path, { throwIfNoEntry: false });
    const options = {
      ...(expectedSha256 === undefined ? {} : { expectedSha256 }),
      ...(there ? { mode: there.mode & 0o777 } : {}),
    };
    try {
      await writeStreamAtomic(there ? realpathSync(path) : path, chunks, { ...options, meter: UNCOUNTED });
    } catch (error) {
      throw error instanceof ContentError ? damaged(`${error.message}. ${path} was not written. Try again.`) : error;
    }
  };

/** Writes into a device or a pipe, which must not be replaced by a file. */
async function toStream(path: string, chunks: AsyncIterable<Uint8Array>, expectedSha256?: string) {
  const file = await open(path, "w");
  try {
    await pour(chunks, expectedSha256, async (chunk) => {
      for (let at = 0; at < chunk.byteLength; ) at += (await file.write(chunk, at)).bytesWritten;
    });
  } finally {
    await file.close();
  }
}

/** Writes each chunk at once. A wrong checksum is reported only after the last chunk. */
export const toOutput: Sink = (chunks, expectedSha256) =>
  pour(
    chunks,
    expectedSha256,
    (chunk) =>
      new Promise<void>((done, fail) => process.stdout.write(chunk, (error) => (error ? fail(error) : done()))),
  );

export async function pour(
  chunks: AsyncIterable<Uint8Array>,
  expectedSha256: string | undefined,
  write: (chunk: Uint8Array) => Promise<void>,
) {
  const hasher = new Bun.CryptoHasher("sha256");
  for await (const chunk of chunks) {
    hasher.update(chunk);
    await write(chunk);
  }
  const sha256 = hasher.digest("hex");
  if (expectedSha256 !== undefined && sha256 !== expectedSha256)
    throw damaged(`The written data is damaged: its sha256 is ${sha256}, expected ${expectedSha256}. Try again.`);
}

const damaged = (message: string) => new ApiError(message, 422, "sha256_mismatch");

export function fileNamed(flag: string, text: string): string {
  const path = resolve(text);
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory())
    throw new UsageError(`${flag}: ${text} is a folder. Give the path of a file.`);
  return path;
}
