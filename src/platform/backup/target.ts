/** Places for backups: a directory, a bucket, or an archive on standard output. Names use `/`; content is small. */
import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, stat, unlink } from "node:fs/promises";
import { dirname, join } from "node:path";
import { UsageError } from "../../lib/errors.ts";
import { asStorageError, errorCode, syncDir, writeFileAtomic } from "../files.ts";

export type StoredObject = { bytes: number; updatedAt: number };
export type BackupTarget = {
  /** For messages. */
  readonly name: string;
  head: (name: string) => Promise<StoredObject | undefined>;
  /** Throws if there is more than `mostBytes`. */
  read: (name: string, mostBytes: number) => Promise<Uint8Array | undefined>;
  /** Whole or not at all, and on the disk when it resolves. */
  write: (name: string, content: Uint8Array) => Promise<void>;
  remove: (name: string) => Promise<void>;
  /** Names below a folder, without the folder. */
  list: (folder: string) => AsyncIterable<StoredObject & { name: string }>;
};

export const tooLong = (path: string, mostBytes: number) =>
  new UsageError(`${path} has more than ${mostBytes} bytes: it is not written by Verk`, 1);

const MODE = { recursive: true, mode: 0o700 } as const;

export async function openDirectory(root: string, { create = false } = {}): Promise<BackupTarget> {
  if (!create && !existsSync(join(root, "backups")))
    throw new UsageError(`There are no backups in ${root}. Make one with \`verk backup create --to ${root}\`.`);
  try {
    await mkdir(join(root, "backups"), MODE);
  } catch (error) {
    throw asStorageError(root, "create", error);
  }
  const missing = (path: string, doing: string) => (error: unknown) => {
    if (errorCode(error) === "ENOENT") return undefined;
    throw asStorageError(path, doing, error);
  };
  return {
    name: root,
    async head(name) {
      const stats = await stat(join(root, name)).catch(missing(join(root, name), "read"));
      return stats && { bytes: stats.size, updatedAt: stats.mtimeMs };
    },
    async read(name, mostBytes) {
      const path = join(root, name);
      const stats = await stat(path).catch(missing(path, "read"));
      if (stats && !stats.isFile()) throw new UsageError(`${path} is no file`, 1); // a device would never end
      if (stats && stats.size > mostBytes) throw tooLong(path, mostBytes);
      return stats && (await readFile(path).catch(missing(path, "read")));
    },
    async write(name, content) {
      const dir = dirname(join(root, name));
      if ((await mkdir(dir, MODE)) !== undefined) await syncDir(dirname(dir));
      await writeFileAtomic(join(root, name), content);
    },
    remove: async (name) => void (await unlink(join(root, name)).catch(missing(join(root, name), "delete"))),
    async *list(folder) {
      const entries = await readdir(join(root, folder), { recursive: true, withFileTypes: true }).catch(
        missing(join(root, folder), "list"),
      );
      for (const entry of entries ?? []) {
        const path = join(entry.parentPath, entry.name);
        const stats = entry.isFile() ? await stat(path).catch(missing(path, "read")) : undefined;
        const name = path.slice(join(root, folder).length + 1);
        if (stats) yield { name, bytes: stats.size, updatedAt: stats.mtimeMs };
      }
    },
  };
}
