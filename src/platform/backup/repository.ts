/** A place for backups: a directory. Chunks are named by their content, so a chunk is stored once. */
import { existsSync, readFileSync } from "node:fs";
import { mkdir, readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { UsageError } from "../../lib/errors.ts";
import { asStorageError, errorCode, sha256Bytes, syncDir, writeFileAtomic } from "../files.ts";
import { Manifest } from "./manifest.ts";

export type Repository = {
  /** Returns the hash. `stored`: false if the chunk was there. */
  putChunk: (bytes: Uint8Array) => Promise<{ sha256: string; stored: boolean }>;
  /** Throws if the chunk is missing or damaged. */
  getChunk: (sha256: string) => Promise<Uint8Array>;
  putManifest: (manifest: Manifest) => Promise<void>;
  /** Throws if there is no such backup, or if its manifest is damaged. */
  getManifest: (id: string) => Promise<Manifest>;
  /** Ids, oldest first. */
  list: () => Promise<string[]>;
};

const Wrapped = z.strictObject({ sha256: z.string(), manifest: z.string() });
const MODE = { recursive: true, mode: 0o700 } as const;

export async function openDirectory(root: string, { create = false } = {}): Promise<Repository> {
  const dirs = { chunks: join(root, "chunks"), backups: join(root, "backups") };
  if (!create && !existsSync(dirs.backups))
    throw new UsageError(`There are no backups in ${root}. Make one with \`verk backup create --to ${root}\`.`);
  try {
    for (const dir of Object.values(dirs)) await mkdir(dir, MODE);
  } catch (error) {
    throw asStorageError(root, "create", error);
  }
  const pathOf = (sha256: string) => join(dirs.chunks, sha256.slice(0, 2), sha256.slice(2));

  return {
    async putChunk(bytes) {
      const sha256 = sha256Bytes(bytes);
      const path = pathOf(sha256);
      if (isWhole(path, bytes.byteLength)) return { sha256, stored: false };
      const dir = join(dirs.chunks, sha256.slice(0, 2));
      if ((await mkdir(dir, MODE)) !== undefined) await syncDir(dirs.chunks);
      await writeFileAtomic(path, bytes);
      return { sha256, stored: true };
    },
    async getChunk(sha256) {
      const bytes = await readFile(pathOf(sha256)).catch((error: unknown) => {
        if (errorCode(error) === "ENOENT") throw new UsageError(`The chunk ${sha256} is missing from ${root}`, 1);
        throw asStorageError(pathOf(sha256), "read", error);
      });
      if (sha256Bytes(bytes) !== sha256) throw new UsageError(`The chunk ${pathOf(sha256)} is damaged`, 1);
      return bytes;
    },
    async putManifest(manifest) {
      const text = JSON.stringify(manifest);
      const body = JSON.stringify({ sha256: sha256Bytes(text), manifest: text });
      await writeFileAtomic(join(dirs.backups, `${manifest.id}.json`), `${body}\n`);
    },
    async getManifest(id) {
      const path = join(dirs.backups, `${id}.json`);
      if (!/^bkp_[0-9a-z]{26}$/.test(id) || !existsSync(path))
        throw new UsageError(`There is no backup ${JSON.stringify(id)} in ${root}. \`verk backup list\` shows all.`);
      try {
        const { sha256, manifest } = Wrapped.parse(JSON.parse(readFileSync(path, "utf8")));
        if (sha256Bytes(manifest) !== sha256) throw new Error("its hash is another");
        return Manifest.parse(JSON.parse(manifest));
      } catch (cause) {
        throw new UsageError(`The manifest ${path} is damaged: use another backup`, 1, { cause });
      }
    },
    async list() {
      const names = await readdir(dirs.backups);
      return names
        .filter((name) => /^bkp_\w{26}\.json$/.test(name))
        .map((name) => name.slice(0, -".json".length))
        .sort();
    },
  };
}

/** A chunk gets its name when it is whole. A size of 0 may be left by a file system that lost its content. */
function isWhole(path: string, bytes: number): boolean {
  return existsSync(path) && Bun.file(path).size === bytes;
}
