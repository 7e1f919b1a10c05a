/** Handles whole trees of any depth, size and mode that other programs made. Few descriptors are open at a time. */
import { randomBytes } from "node:crypto";
import { chmodSync, closeSync } from "node:fs";
import { unlink } from "node:fs/promises";
import { takingTurns } from "../../lib/turns.ts";
import { errorCode } from "../../platform/files.ts";
import {
  CallError,
  type Entry,
  entriesOf,
  type Name,
  O,
  removeDirAt,
  renameAt,
  rewind,
  type Stat,
  statAt,
  unlinkAt,
  within,
} from "./beneath_calls.ts";
import { openAt, THE_NAME } from "./beneath_open.ts";

const MOST_LEVELS = 256;

export type Usage = {
  /** Allocated blocks, not file sizes. */
  bytes: number;
  entries: number;
  /** True if a directory could not be read, because it is too deep or its mode forbids it. */
  hidden: boolean;
};

type Level = { fd: number; name: Buffer | undefined; inner: Buffer[] };
type Visit = (dir: number, entry: Entry, path: () => Buffer) => "stop" | undefined;

/**
 * Visits every entry below a directory, in constant memory for each level. Returns true if a directory could not be
 * read, because it is too deep or its mode forbids it. Entries that move meanwhile may be missed or visited twice.
 */
export async function walkTree(dir: number, visit: Visit): Promise<boolean> {
  const turn = takingTurns();
  let hidden = false;
  const levels: Level[] = [{ fd: openDir(dir, "."), name: undefined, inner: [] }];
  try {
    for (let level = levels.at(-1); level; level = levels.at(-1)) {
      const name = level.inner.pop();
      if (name) {
        const fd = levels.length < MOST_LEVELS ? tryOpen(level.fd, name) : undefined;
        if (fd === undefined) hidden = true;
        else if (fd !== GONE) levels.push({ fd, name, inner: [] });
      } else {
        const piece = entriesOf(level.fd);
        if (piece.length === 0) closeSync((levels.pop() as Level).fd);
        for (const entry of piece) {
          if (entry.kind === "directory") level.inner.push(entry.name);
          if (visit(level.fd, entry, () => pathOf(levels, entry.name)) === "stop") return hidden;
        }
      }
      await turn();
    }
    return hidden;
  } finally {
    for (const { fd } of levels) closeSync(fd);
  }
}

const SLASH = Buffer.from("/");
const pathOf = (levels: readonly Level[], last: Buffer): Buffer =>
  Buffer.concat([...levels.flatMap(({ name }) => (name ? [name, SLASH] : [])), last]);

/** Measures everything below a directory. Stops after `most` entries. */
export async function measureTree(dir: number, most: number): Promise<Usage> {
  let [bytes, entries] = [0, 0];
  const hidden = await walkTree(dir, (fd, { name, kind }) => {
    const stat = statUnlessGone(fd, name);
    entries++;
    if (stat) bytes += kind === "directory" ? stat.blocksBytes : stat.blocksBytes / Math.max(1, stat.links); // Hard links share the blocks.
    return entries > most ? "stop" : undefined;
  });
  return { bytes: Math.ceil(bytes), entries, hidden };
}

export function statUnlessGone(dir: number, name: Name): Stat | undefined {
  try {
    return statAt(dir, name);
  } catch (error) {
    if (error instanceof CallError) return undefined;
    throw error;
  }
}

const GONE = -1;

function tryOpen(dir: number, name: Buffer): number | undefined {
  try {
    return openDir(dir, name);
  } catch (error) {
    if (!(error instanceof CallError)) throw error;
    return ["ENOENT", "ENOTDIR", "ELOOP"].includes(error.code) ? GONE : undefined;
  }
}

const openDir = (dir: number, name: Name) => openAt(dir, name, O.O_RDONLY | O.O_DIRECTORY | O.O_NOFOLLOW, THE_NAME);

/** Opens a directory of any mode. The descriptor is taken before the mode is changed. */
function openToEmpty(dir: number, name: Name): number {
  return within(openAt(dir, name, O.O_PATH | O.O_DIRECTORY | O.O_NOFOLLOW, THE_NAME), (pinned) => {
    chmodSync(`/proc/self/fd/${pinned}`, 0o700);
    return openDir(pinned, ".");
  });
}

/**
 * Removes everything in the directory `name`. Nested directories are moved up into the directory itself and emptied
 * there. So a tree of any depth needs two descriptors and no path. Throws ENOTEMPTY if programs fill it for `mostMs`.
 */
export async function emptyDirectory(dir: number, name: Name, mostMs: number): Promise<void> {
  const end = performance.now() + mostMs;
  await within(openToEmpty(dir, name), (top) =>
    untilEmpty(top, end, async (inner) => {
      await within(openToEmpty(top, inner), (fd) => untilEmpty(fd, end, async (nested) => hoist(fd, nested, top)));
      removeDirAt(top, inner);
    }),
  );
}

/** `dissolve` empties a nested directory. */
async function untilEmpty(fd: number, end: number, dissolve: (name: Buffer) => Promise<void>): Promise<void> {
  const turn = takingTurns();
  for (;;) {
    rewind(fd);
    let seen = 0;
    for (let piece = entriesOf(fd); piece.length > 0; piece = entriesOf(fd)) {
      seen += piece.length;
      await unlinkAll(fd, piece);
      for (const { name, kind } of piece)
        if (kind === "directory" && !unlessGone(() => removeDirAt(fd, name))) await whileThere(() => dissolve(name));
      await turn();
      if (performance.now() > end) throw new CallError("unlinkat", 39);
    }
    if (seen === 0) return;
  }
}

const AT_ONCE = 32;

/** Unlinks files in other threads, because freeing the blocks of a large file is slow. */
async function unlinkAll(fd: number, piece: Entry[]) {
  const files = piece.filter(({ kind }) => kind === "file");
  for (const { name, kind } of piece) if (kind === "symlink" || kind === "other") unlessGone(() => unlinkAt(fd, name));
  for (let at = 0; at < files.length; at += AT_ONCE)
    await Promise.all(files.slice(at, at + AT_ONCE).map(({ name }) => unlinkLater(fd, name)));
}

async function unlinkLater(fd: number, name: Buffer) {
  try {
    await unlink(Buffer.concat([Buffer.from(`/proc/self/fd/${fd}/`), name])); // unlink does not follow a link.
  } catch (error) {
    if (errorCode(error) !== "ENOENT" && errorCode(error) !== "EISDIR") throw error;
  }
}

/** Returns false if the directory exists and is not empty. */
function unlessGone(remove: () => unknown): boolean {
  try {
    remove();
    return true;
  } catch (error) {
    if (!(error instanceof CallError)) throw error;
    if (error.code === "ENOENT" || error.code === "ENOTDIR" || error.code === "EISDIR") return true;
    if (error.code === "ENOTEMPTY" || error.code === "EEXIST") return false;
    throw error;
  }
}

async function whileThere(work: () => Promise<void>) {
  try {
    await work();
  } catch (error) {
    const moved = error instanceof CallError && ["ENOENT", "ENOTDIR", "ELOOP", "ENOTEMPTY"].includes(error.code);
    if (!moved) throw error; // The next round reads the directory again.
  }
}

function hoist(from: number, name: Buffer, to: number) {
  const move = () => renameAt([from, name], [to, `.verk-${randomBytes(12).toString("hex")}`], { fresh: true });
  try {
    move();
  } catch (error) {
    if (!(error instanceof CallError && (error.code === "EACCES" || error.code === "EPERM"))) throw error;
    closeSync(openToEmpty(from, name)); // A directory must be writable to be moved.
    move();
  }
}
