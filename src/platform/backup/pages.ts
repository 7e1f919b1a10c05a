/**
 * Changed pages of SQLite files. A patch is a list of pages: the index of the page in four bytes, big-endian, then its
 * content. The hashes of the pages are kept in memory, under a random seed: a caller cannot make content that has the hash
 * of another page.
 */
import { open } from "node:fs/promises";
import { UsageError } from "../../lib/errors.ts";
import { MIB } from "../../lib/units.ts";
import { readInto } from "../files.ts";
import { type BackupFile, MOST_PATCHES } from "./manifest.ts";
import type { Repository } from "./repository.ts";

const PATCH_BYTES = 4 * MIB;
const INDEX_BYTES = 4;
const SMALLEST_PAGE = 512;
const HEADER_BYTES = 100;
const seed = crypto.getRandomValues(new BigUint64Array(1))[0] as bigint;

export type KnownPages = { file: BackupFile; pageBytes: number; hashes: BigUint64Array; patchBytes: number };

/** Reads all pages of a file that does not change. `visit` gets those whose hash is not the known one. */
async function readPages(
  path: string,
  knownHashes: BigUint64Array,
  visit: (index: number, page: Buffer) => Promise<void>,
) {
  const file = await open(path, "r");
  try {
    const { size } = await file.stat();
    const header = Buffer.alloc(HEADER_BYTES);
    await readInto(file, header, 0);
    const stated = header.readUInt16BE(16);
    const pageBytes = stated === 1 ? 65_536 : Math.max(stated, SMALLEST_PAGE);
    const hashes = new BigUint64Array(Math.ceil(size / pageBytes));
    const buffer = Buffer.allocUnsafe(Math.max(MIB, pageBytes));
    for (let at = 0; at < size; ) {
      const bytesRead = await readInto(file, buffer, at);
      if (bytesRead === 0) break;
      for (let i = 0; i < bytesRead; i += pageBytes) {
        const page = buffer.subarray(i, Math.min(i + pageBytes, bytesRead));
        const index = (at + i) / pageBytes;
        hashes[index] = Bun.hash.wyhash(page, seed);
        if (hashes[index] !== knownHashes[index]) await visit(index, page);
      }
      at += bytesRead;
    }
    return { bytes: size, pageBytes, hashes };
  } finally {
    await file.close();
  }
}

/** The first copy of a file: `file` has its content, and its pages are remembered. */
export async function rememberPages(path: string, file: BackupFile): Promise<KnownPages> {
  const { pageBytes, hashes } = await readPages(path, new BigUint64Array(0), async () => {});
  return { file, pageBytes, hashes, patchBytes: 0 };
}

/** A later copy: only its changed pages are stored. Undefined: store the whole file again, which is smaller or simpler. */
export async function patchOf(
  repository: Repository,
  path: string,
  previous: KnownPages,
): Promise<KnownPages | undefined> {
  const patches = [...(previous.file.patches ?? [])];
  let { patchBytes } = previous;
  let parts: Buffer[] = [];
  let waiting = 0;
  const flush = async () => {
    if (parts.length > 0) patches.push((await repository.putChunk(Buffer.concat(parts))).sha256);
    parts = [];
    waiting = 0;
  };
  const { bytes, pageBytes, hashes } = await readPages(path, previous.hashes, async (index, page) => {
    const head = Buffer.alloc(INDEX_BYTES);
    head.writeUInt32BE(index);
    parts.push(head, Buffer.from(page));
    waiting += INDEX_BYTES + page.length;
    patchBytes += INDEX_BYTES + page.length;
    if (waiting + INDEX_BYTES + page.length > PATCH_BYTES) await flush();
  });
  if (pageBytes !== previous.pageBytes) return undefined;
  await flush();
  if (patches.length > MOST_PATCHES || patchBytes > Math.max(bytes, PATCH_BYTES)) return undefined;
  const { path: name, chunks } = previous.file;
  return { file: { path: name, bytes, chunks, patches }, pageBytes, hashes, patchBytes };
}

/** Writes the patches over a restored file. Returns its size. */
export async function applyPatches(repository: Repository, path: string, { bytes, patches = [] }: BackupFile) {
  const file = await open(path, "r+");
  try {
    const header = Buffer.alloc(HEADER_BYTES);
    await readInto(file, header, 0);
    const pageBytes = header.readUInt16BE(16) === 1 ? 65_536 : Math.max(header.readUInt16BE(16), SMALLEST_PAGE);
    for (const sha256 of patches) {
      const patch = Buffer.from(await repository.getChunk(sha256));
      if (patch.length % (INDEX_BYTES + pageBytes) !== 0)
        throw new UsageError(`The patch ${sha256} does not fit the pages of ${path}`, 1);
      for (let i = 0; i < patch.length; i += INDEX_BYTES + pageBytes)
        await file.write(patch, i + INDEX_BYTES, pageBytes, patch.readUInt32BE(i) * pageBytes);
    }
    await file.truncate(bytes);
    await file.sync();
    return bytes;
  } finally {
    await file.close();
  }
}
