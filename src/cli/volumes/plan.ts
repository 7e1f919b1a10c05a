/** Plans which files `verk volumes cp` copies. A target that ends with a slash is a folder to copy into. */
import { type Dirent, statSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { basename, join, relative, resolve, sep } from "node:path";
import { UsageError } from "../../lib/errors.ts";
import { checkKey, InvalidKeyError } from "../../platform/storage/storage.ts";
import type { VolumeFile } from "../../resources/data/volumes/schema.ts";
import type { Client } from "../client.ts";
import { listAll } from "../lists.ts";
import { note } from "../output.ts";

export type Remote = { volume: string; path: string };
/** `existingSha256`: checksum of the file that the volume has under the target path. */
export type Copy = { from: string; to: string; size: number; existingSha256?: string | undefined };

/** Reads `lab:runs/a.bin`. To name a local file that looks like this, write `./lab:runs`. */
export function remoteOf(text: string): Remote | undefined {
  const [, volume, path] = /^([a-z0-9][a-z0-9_-]*):(.*)$/s.exec(text) ?? [];
  return volume === undefined || path === undefined ? undefined : { volume, path: path.replace(/^\/+/, "") };
}

export const pathOf = (volume: string, path = "") =>
  `/v1/volumes/${encodeURIComponent(volume)}/files${path === "" ? "" : `/${path.split("/").map(encodeURIComponent).join("/")}`}`;

export const filesOf = (client: Client, { volume, path }: Remote) =>
  listAll<VolumeFile>(client, `${pathOf(volume)}?prefix=${encodeURIComponent(path)}`, (file) => file.path);

const isFolder = (path: string) => path === "" || path.endsWith("/");
const inside = (folder: string, name: string) =>
  folder === "" || folder.endsWith("/") ? folder + name : `${folder}/${name}`;

/** Maps local files to paths in a volume. */
export async function planUpload(client: Client, from: string, to: Remote, recursive: boolean): Promise<Copy[]> {
  const stat = statSync(from, { throwIfNoEntry: false });
  if (!stat) throw new UsageError(`Cannot read ${from}: there is no such file`);
  const name = basename(resolve(from));
  const target = isFolder(to.path) ? inside(to.path, name) : to.path;
  if (!stat.isDirectory()) return [{ from, to: target, size: stat.size }];
  if (!recursive) throw new UsageError(`${from} is a folder. Add -r to copy it.`);
  const there = await filesOf(client, { volume: to.volume, path: `${target}/` });
  const sums = new Map(there.map(({ path, sha256 }) => [path, sha256]));
  return (await filesBelow(from)).map((file) => {
    const path = inside(target, relative(from, file).split(sep).join("/"));
    return { from: file, to: requireName(file, path), size: sizeOf(file), existingSha256: sums.get(path) };
  });
}

/** Checks the name before anything is sent: the server would reject it in the middle of the copy. */
function requireName(file: string, path: string): string {
  try {
    checkKey(path);
    return path;
  } catch (error) {
    if (!(error instanceof InvalidKeyError)) throw error;
    throw new UsageError(`A volume cannot store ${JSON.stringify(file)}: ${error.why}. Rename the file.`, 1);
  }
}

function sizeOf(file: string): number {
  const stat = statSync(file, { throwIfNoEntry: false });
  if (stat) return stat.size;
  throw new UsageError(
    `Cannot read ${JSON.stringify(file)}: the file was deleted, or its name is not UTF-8. Rename the file.`,
    1,
  );
}

async function filesBelow(dir: string): Promise<string[]> {
  const entries = await readdir(dir, { recursive: true, withFileTypes: true });
  const pathTo = (entry: Dirent) => join(entry.parentPath, entry.name);
  const odd = entries.filter((entry) => !entry.isFile() && !entry.isDirectory()).map(pathTo);
  if (odd[0] !== undefined)
    note(`verk: skipped links and special files: ${odd.length} (${odd[0]}${odd[1] ? ", …" : ""})`);
  return entries
    .filter((entry) => entry.isFile())
    .map(pathTo)
    .sort();
}

/** Maps files of a volume to local paths. */
export async function planDownload(client: Client, from: Remote, to: string, recursive: boolean): Promise<Copy[]> {
  const into = to.endsWith("/") || statSync(to, { throwIfNoEntry: false })?.isDirectory() === true;
  const named = from.path.replace(/\/+$/, "");
  const target = into && named !== "" ? join(to, basename(named)) : to;
  if (!recursive) {
    if (isFolder(from.path)) throw new UsageError(`${from.volume}:${from.path} is a folder. Add -r to copy it.`);
    const there = await filesOf(client, from);
    const file = there.find(({ path }) => path === named);
    if (file) return [{ from: named, to: target, size: file.size_bytes }];
    const folder = there.some(({ path }) => path.startsWith(`${named}/`));
    throw new UsageError(
      folder
        ? `${from.volume}:${named} is a folder. Add -r to copy it.`
        : `There is no file ${named} in the volume ${from.volume}.`,
      1,
    );
  }
  const folder = named === "" ? "" : `${named}/`;
  const files = await filesOf(client, { volume: from.volume, path: folder });
  if (files.length === 0) throw new UsageError(`There are no files in ${from.volume}:${folder}`, 1);
  return files.map(({ path, size_bytes: size }) => ({
    from: path,
    to: below(target, path.slice(folder.length)),
    size,
  }));
}

/** Rejects a path outside of `dir`: a malicious server must not choose where files are written. */
function below(dir: string, path: string): string {
  const full = resolve(dir, path);
  if (!full.startsWith(resolve(dir) + sep))
    throw new UsageError(`The server sent the path ${JSON.stringify(path)}, which is outside of ${dir}`, 1);
  return full;
}
