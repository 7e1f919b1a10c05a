/** Whole trees that somebody else made: of any depth, size and mode. One descriptor is open for each of a few levels. */
import { randomBytes } from "node:crypto";
import { chmodSync, closeSync } from "node:fs";
import { unlink } from "node:fs/promises";
import { takingTurns } from "../lib/turns.ts";
import { errorCode } from "../platform/files.ts";
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

/** What lies below a directory. Stops counting above `most` entries. */
export async function measureTree(dir: number, most: number): Promise<Usage> {
  const turn = takingTurns();
  const usage: Usage = { bytes: 0, entries: 0, hidden: false };
  const levels: { fd: number; inner: Buffer[] }[] = [{ fd: openDir(dir, "."), inner: [] }];
  try {
    while (levels.length > 0 && usage.entries <= most) {
      const level = levels.at(-1) as (typeof levels)[number];
      const next = level.inner.pop();
      if (next) {
        const fd = levels.length < MOST_LEVELS ? tryOpen(level.fd, next) : undefined;
        if (fd === undefined) usage.hidden = true;
        else if (fd !== GONE) levels.push({ fd, inner: [] });
      } else {
        const piece = entriesOf(level.fd);
        if (piece.length === 0) closeSync((levels.pop() as (typeof levels)[number]).fd);
        else count(usage, level, piece);
      }
      await turn();
    }
    return { ...usage, bytes: Math.ceil(usage.bytes) };
  } finally {
    for (const { fd } of levels) closeSync(fd);
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

function count(usage: Usage, { fd, inner }: { fd: number; inner: Buffer[] }, piece: Entry[]) {
  for (const { name, kind } of piece) {
    usage.entries++;
    if (kind === "directory") inner.push(name);
    try {
      const { blocksBytes, links } = statAt(fd, name);
      usage.bytes += kind === "directory" ? blocksBytes : blocksBytes / Math.max(1, links); // they share the blocks
    } catch (error) {
      if (!(error instanceof CallError)) throw error; // gone meanwhile
    }
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
