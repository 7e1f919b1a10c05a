/**
 * sums/ab/cdef…  the block sums of objects/ab/cdef…, 8 bytes each
 * A file of sums may be missing: then parts of its content are given unverified until the next verification writes it.
 * It may be wrong after a power failure: so a sum that differs proves nothing before the whole content was hashed.
 */
import { rmSync } from "node:fs";
import { mkdir, open, readFile, rename, stat, unlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import * as files from "../files.ts";
import { blocksIn } from "./block_sums.ts";

const SUM_BYTES = BigUint64Array.BYTES_PER_ELEMENT;

export function openSums(root: string) {
  const pathOf = (sha256: string) => join(root, "sums", sha256.slice(0, 2), sha256.slice(2));

  /** Not flushed, and without an error: the sums can be made again. */
  async function write(sha256: string, sums: BigUint64Array) {
    const path = pathOf(sha256);
    const temp = files.tempPath(join(root, "tmp"));
    try {
      await mkdir(dirname(path), { recursive: true, mode: 0o700 });
      await writeFile(temp, bytesOf(sums), { mode: 0o600 });
      await rename(temp, path);
    } catch {
      await unlink(temp).catch(() => {}); // never made
    }
  }

  /** The sums of `count` blocks of a content, from block `first` on. Undefined if the content has none. */
  async function read({ sha256, bytes }: files.Written, first: number, count: number) {
    const file = await open(pathOf(sha256), "r").catch(() => undefined);
    if (!file) return undefined;
    try {
      if ((await file.stat()).size !== blocksIn(bytes) * SUM_BYTES) return undefined;
      const sums = new BigUint64Array(count);
      const bytesRead = await files.readInto(file, bytesOf(sums), first * SUM_BYTES);
      return bytesRead === count * SUM_BYTES ? sums : undefined;
    } finally {
      await file.close();
    }
  }

  /** True if a content of this size has all its sums. */
  const exists = async ({ sha256, bytes }: files.Written): Promise<boolean> =>
    (await stat(pathOf(sha256)).catch(() => undefined))?.size === blocksIn(bytes) * SUM_BYTES;

  /** Writes the sums unless the file has them. */
  async function ensure(sha256: string, sums: BigUint64Array) {
    const stored = await readFile(pathOf(sha256)).catch(() => undefined);
    if (!stored?.equals(bytesOf(sums))) await write(sha256, sums);
  }

  /** At once, so that no put of the same content comes in between. */
  const remove = (sha256: string) => rmSync(pathOf(sha256), { force: true });

  return { write, read, exists, ensure, remove };
}

const bytesOf = ({ buffer, byteOffset, byteLength }: BigUint64Array) => new Uint8Array(buffer, byteOffset, byteLength);
