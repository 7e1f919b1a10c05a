import { statSync } from "node:fs";
import { resolve } from "node:path";
import { UsageError } from "../../lib/errors.ts";
import { ContentError, writeStreamAtomic } from "../../platform/files.ts";
import { ApiError } from "../client.ts";

/** Takes all of it, or throws; what it should hash to is checked where that is known. */
export type Sink = (chunks: AsyncIterable<Uint8Array>, expectedSha256?: string) => Promise<void>;

/** The file is the old one or the whole new one. */
export const toFile =
  (path: string): Sink =>
  async (chunks, expectedSha256) => {
    try {
      await writeStreamAtomic(path, chunks, expectedSha256 === undefined ? {} : { expectedSha256 });
    } catch (error) {
      throw error instanceof ContentError ? damaged(`${error.message}: ${path} was not written`) : error;
    }
  };

/** As it comes: whoever reads it learns only at the end that it was not right. */
export const toOutput: Sink = async (chunks, expectedSha256) => {
  const hasher = new Bun.CryptoHasher("sha256");
  for await (const chunk of chunks) {
    hasher.update(chunk);
    await new Promise<void>((done, fail) => process.stdout.write(chunk, (error) => (error ? fail(error) : done())));
  }
  const sha256 = hasher.digest("hex");
  if (expectedSha256 !== undefined && sha256 !== expectedSha256)
    throw damaged(`What was written is damaged: its sha256 is ${sha256}, not ${expectedSha256}`);
};

const damaged = (message: string) => new ApiError(message, 422, "sha256_mismatch");

export function fileNamed(flag: string, given: string): string {
  const path = resolve(given);
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory())
    throw new UsageError(`${flag}: ${given} is a folder: name a file in it`);
  return path;
}
