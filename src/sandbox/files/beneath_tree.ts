/** Whole trees that somebody else made: of any depth, size and mode. One descriptor is open for each of a few levels. */
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
  openAt,
  removeDirAt,
  renameAt,
  rewind,
  type Stat,
  statAt,
  THE_NAME,
  unlinkAt,
  within,
} from "./beneath_calls.ts";

const MOST_LEVELS = 256;

export type Usage = {
  /** As the disk counts them. */
  bytes: number;
  entries: number;
  /** Something cannot be counted: it lies too deep, or its mode forbids it. */
  hidden: boolean;
};

type Level = { fd: number; name: Buffer | undefined; inner: Buffer[] };
type Visit = (dir: number, entry: Entry, path: () => Buffer) => "stop" | undefined;

/**
 * Every entry below a directory, in constant memory for each level. True: something could not be seen, because it lies
 * too deep or its mode forbids it. What moves meanwhile may be missed, or be met twice.
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

/** What lies below a directory. Stops counting above `most` entries. */
export async function measureTree(dir: number, most: number): Promise<Usage> {
  let [bytes, entries] = [0, 0];
  const hidden = await walkTree(dir, (fd, { name, kind }) => {
    const stat = statUnlessGone(fd, name);
    entries++;
    if (stat) bytes += kind === "directory" ? stat.blocksBytes : stat.blocksBytes / Math.max(1, stat.links); // they share the blocks
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

/** As `openDir`, whatever its mode was; it is pinned before it is changed. */
function openToEmpty(dir: number, name: Name): number {
  return within(openAt(dir, name, O.O_PATH | O.O_DIRECTORY | O.O_NOFOLLOW, THE_NAME), (pinned) => {
    chmodSync(`/proc/self/fd/${pinned}`, 0o700);
    return openDir(pinned, ".");
  });
}

/**
 * Removes all that lies in the directory `name`. What nests is hoisted into the directory itself and emptied there, so
 * that a tree of any depth takes two descriptors and no path. Throws ENOTEMPTY when others fill it for `mostMs`.
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

/** `dissolve`: a directory that is not empty. */
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

/** On other threads: to free the blocks of a large file takes its time. */
async function unlinkAll(fd: number, piece: Entry[]) {
  const files = piece.filter(({ kind }) => kind === "file");
  for (const { name, kind } of piece) if (kind === "symlink" || kind === "other") unlessGone(() => unlinkAt(fd, name));
  for (let at = 0; at < files.length; at += AT_ONCE)
    await Promise.all(files.slice(at, at + AT_ONCE).map(({ name }) => unlinkLater(fd, name)));
}

async function unlinkLater(fd: number, name: Buffer) {
  try {
    await unlink(Buffer.concat([Buffer.from(`/proc/self/fd/${fd}/`), name])); // unlink follows no link at the end
  } catch (error) {
    if (errorCode(error) !== "ENOENT" && errorCode(error) !== "EISDIR") throw error;
  }
}

/** False: it is there and not empty. */
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
    if (!moved) throw error; // else: the next round sees what is there now
  }
}

function hoist(from: number, name: Buffer, to: number) {
  const move = () => renameAt([from, name], [to, `.verk-${randomBytes(12).toString("hex")}`], { fresh: true });
  try {
    move();
  } catch (error) {
    if (!(error instanceof CallError && (error.code === "EACCES" || error.code === "EPERM"))) throw error;
    closeSync(openToEmpty(from, name)); // a directory that may not be written may not be moved either
    move();
  }
}
