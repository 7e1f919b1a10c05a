/** Makes, lists, moves and removes directories that foreign code may change, and reads single files of them. */
import { closeSync, constants, fsync, mkdirSync, openSync } from "node:fs";
import { copyFile, open } from "node:fs/promises";
import { basename, dirname } from "node:path";
import { promisify } from "node:util";
import { takingTurns } from "../../lib/turns.ts";
import { MINUTE_MS } from "../../lib/units.ts";
import { errorCode, type Meter } from "../../platform/files.ts";
import { CallError, entriesOf, linkOpened, O, removeDirAt, renameAt, unlinkAt, within } from "./beneath_calls.ts";
import { openAt, THE_NAME } from "./beneath_open.ts";
import { emptyDirectory, statUnlessGone, walkTree } from "./beneath_tree.ts";
import { chunksOf } from "./chunks.ts";
import { type ForeignDir, namesOf, openForeign, openParent, openTop, topOf } from "./foreign_dir.ts";
import { type OpenedFile, type Owner, openFileAt, stepsInto } from "./steps.ts";

const REMOVE_MS = 10 * MINUTE_MS; // Only a very large tree takes this long, and the next run continues.

const flush = promisify(fsync);
const isGone = (error: unknown) => errorCode(error) === "ENOENT";

function unlessGone<T>(work: () => T): T | undefined {
  try {
    return work();
  } catch (error) {
    if (isGone(error)) return undefined;
    throw error;
  }
}

/** Makes the directory and its parents. `mode` and `owner` apply to new directories. */
export function makeDir(dir: ForeignDir, options: { mode?: number; owner?: Owner | undefined } = {}): void {
  mkdirSync(topOf(dir), { recursive: true, mode: 0o700 });
  const top = openTop(dir);
  within(top, () => closeSync(stepsInto(top, namesOf(dir), { mode: 0o700, ...options })));
}

export function exists(dir: ForeignDir): boolean {
  const at = unlessGone(() => openParent(dir));
  return at !== undefined && within(at.parent, () => statUnlessGone(at.parent, at.name)?.kind === "directory");
}

/** Names that are not UTF-8 have replacement characters. Returns an empty list for a missing directory. */
export async function namesIn(dir: ForeignDir): Promise<string[]> {
  const fd = unlessGone(() => openForeign(dir));
  if (fd === undefined) return [];
  return within(fd, async () => {
    const turn = takingTurns();
    const names: string[] = [];
    for (let piece = entriesOf(fd); piece.length > 0; piece = entriesOf(fd)) {
      for (const { name } of piece) names.push(name.toString("utf8"));
      await turn();
    }
    return names;
  });
}

/** Removes the directory and everything in it, or a file or link of this name. Can be called again. */
export async function removeTree(dir: ForeignDir): Promise<void> {
  const at = unlessGone(() => openParent(dir));
  if (at === undefined) return;
  const { parent, name } = at;
  await within(parent, async () => {
    const kind = statUnlessGone(parent, name)?.kind;
    if (kind === undefined) return;
    try {
      if (kind !== "directory") return void unlinkAt(parent, name);
      await emptyDirectory(parent, name, REMOVE_MS);
      removeDirAt(parent, name);
    } catch (error) {
      if (!isGone(error)) throw error;
    }
  });
}

/** Renames the directory within its parent. Returns false if it is missing. */
export function renameTree(dir: ForeignDir, to: string): boolean {
  const at = unlessGone(() => openParent(dir));
  if (at === undefined) return false;
  return within(
    at.parent,
    () => unlessGone(() => renameAt([at.parent, at.name], [at.parent, to], { fresh: true })) !== undefined,
  );
}

/** Moves a directory of the server to the place of `dir`, which must not exist. Its parent is flushed. */
export async function adoptTree(path: string, dir: ForeignDir): Promise<void> {
  await within(openSync(dirname(path), "r"), async (from) => {
    const { parent, name } = openParent(dir);
    await within(parent, (to) => {
      renameAt([from, basename(path)], [to, name], { fresh: true });
      return flush(to);
    });
  });
}

/** Flushes the entries of the directory. */
export const syncTree = (dir: ForeignDir): Promise<void> => within(openForeign(dir), (fd) => flush(fd));

/** Bytes of the regular files below the directory. */
export async function bytesIn(dir: ForeignDir): Promise<number> {
  let bytes = 0;
  await within(openForeign(dir), (fd) =>
    walkTree(fd, (at, { name, kind }) => {
      if (kind === "file") bytes += statUnlessGone(at, name)?.bytes ?? 0;
      return undefined;
    }),
  );
  return bytes;
}

/** Opens a regular file; the caller closes it. Returns undefined if it is missing. */
export const openFile = (dir: ForeignDir, name: string): OpenedFile | undefined =>
  unlessGone(() => within(openForeign(dir), (fd) => openFileAt(fd, name)));

/** The size of a regular file, or undefined if there is none. Does not open the file. */
export function fileBytes(dir: ForeignDir, name: string): number | undefined {
  const fd = unlessGone(() => openForeign(dir));
  const stat = fd === undefined ? undefined : within(fd, () => statUnlessGone(fd, name));
  return stat?.kind === "file" ? stat.bytes : undefined;
}

export const hasFile = (dir: ForeignDir, name: string): boolean => fileBytes(dir, name) !== undefined;

/** Opens a file for appending. A missing file is created with mode 0600. */
export const openToAppend = (dir: ForeignDir, name: string): number =>
  within(openForeign(dir), (fd) => openAt(fd, name, O.O_RDWR | O.O_APPEND | O.O_CREAT | O.O_NOFOLLOW, THE_NAME, 0o600));

/** Returns undefined if the file is missing. Throws RangeError if it has more than `most` bytes. */
export async function readText(dir: ForeignDir, name: string, most: number): Promise<string | undefined> {
  const file = openFile(dir, name);
  if (!file) return undefined;
  return within(file.fd, async () => {
    if (file.stat.bytes > most) throw new RangeError(`${name} has ${file.stat.bytes} bytes: at most ${most} are read`);
    const pieces: Uint8Array[] = [];
    for await (const piece of chunksOf(file.fd, { offset: 0, length: file.stat.bytes })) pieces.push(piece);
    return Buffer.concat(pieces).toString("utf8");
  });
}

/** Hard-links the file to `to`, a path of the server. Copies it if the file system has no hard links; `meter` counts that. */
export async function linkFile(dir: ForeignDir, name: string, to: string, meter: Meter): Promise<void> {
  const file = openFile(dir, name);
  if (!file) throw new Error(`${name} is missing`);
  await within(file.fd, async () => {
    try {
      linkOpened(file.fd, to);
    } catch (error) {
      if (!(error instanceof CallError)) throw error;
      meter.take(file.stat.bytes);
      await copyFile(`/proc/self/fd/${file.fd}`, to, constants.COPYFILE_FICLONE);
      const handle = await open(to, "r+");
      await handle.sync().finally(() => handle.close());
    }
  });
}

/** Streams the content in constant memory. The file is open from the first piece to the last. */
export async function* contentOf(dir: ForeignDir, name: string): AsyncGenerator<Uint8Array> {
  const file = openFile(dir, name);
  if (!file) throw new Error(`${name} is missing`);
  try {
    yield* chunksOf(file.fd, { offset: 0, length: file.stat.bytes });
  } finally {
    closeSync(file.fd);
  }
}
