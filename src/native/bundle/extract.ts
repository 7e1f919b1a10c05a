/**
 * Extracts embedded native libraries to `<data>/native/<group>-<hash>`. A group directory gets its name by one rename,
 * after every file was hashed and synced. So a directory with that name is complete. A kernel lock lets one process
 * extract at a time; the rename is safe also without locks. Reuse checks the manifest and the sizes only; `verifyGroup`
 * reads and hashes every byte.
 */
import { createHash } from "node:crypto";
import {
  closeSync,
  fsyncSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readSync,
  renameSync,
  rmSync,
  writeSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { UsageError } from "../../lib/errors.ts";
import { lockExclusive } from "../libc.ts";
import { type EmbeddedFile, type EmbeddedGroup, groups } from "./embedded.ts";
import { createInflate, slicesOf } from "./parts.ts";

const MANIFEST = "manifest.json";
const checked = new Set<string>();

/** Returns the directory of a group. Extracts it if it is missing or damaged. */
export function ensureGroup(name: string, dataDir: string, table = groups): string {
  const group = table[name];
  if (!group)
    throw new UsageError(`This build of verk does not include the "${name}" libraries; install a build that does.`);
  const root = join(dataDir, "native");
  const dir = join(root, `${name}-${group.hash}`);
  if (checked.has(dir)) return dir;
  if (!isIntact(dir, group)) withLock(root, () => isIntact(dir, group) || publish(root, dir, group));
  checked.add(dir);
  return dir;
}

/** verk-confine runs this before a worker that cannot write the libraries itself. */
export function ensureGroups(names: readonly string[], dataDir: string) {
  for (const name of names) ensureGroup(name, dataDir);
}

/** Checks names and sizes of an extracted group. True for a group that this build does not have. */
export const isExtracted = (name: string, dataDir: string, table = groups): boolean => {
  const group = table[name];
  return group === undefined || isIntact(join(dataDir, "native", `${name}-${group.hash}`), group);
};

/** Paths of files that are missing or differ from the embedded ones; empty for an intact copy. */
export function verifyGroup(name: string, dataDir: string, table = groups): string[] {
  const group = table[name];
  if (!group) return [];
  const dir = join(dataDir, "native", `${name}-${group.hash}`);
  return group.files.filter((f) => sha256Of(join(dir, f.rel)) !== f.sha256).map((f) => join(dir, f.rel));
}

/** Deletes the copy of a group, so that the next use extracts it again. */
export function discardGroup(name: string, dataDir: string, table = groups) {
  const group = table[name];
  if (!group) return;
  const dir = join(dataDir, "native", `${name}-${group.hash}`);
  checked.delete(dir);
  rmSync(dir, { recursive: true, force: true });
}

/**
 * Deletes libraries that other versions of the executable extracted. Only for the holder of the lock of the data
 * directory, before it starts a worker: a running worker may still need other files of its group.
 */
export function removeOtherVersions(dataDir: string, table = groups): string[] {
  const root = join(dataDir, "native");
  const keep = new Set(["lock", ...Object.entries(table).map(([name, g]) => `${name}-${g.hash}`)]);
  const stale = listDir(root).filter((entry) => !keep.has(entry));
  for (const entry of stale) rmSync(join(root, entry), { recursive: true, force: true });
  return stale;
}

const manifestOf = (group: EmbeddedGroup) =>
  JSON.stringify(group.files.map(({ rel, bytes, sha256 }) => ({ rel, bytes, sha256 })));

function isIntact(dir: string, group: EmbeddedGroup): boolean {
  try {
    if (readFileSync(join(dir, MANIFEST), "utf8") !== manifestOf(group)) return false;
    return group.files.every((f) => {
      const stat = lstatSync(join(dir, f.rel));
      return stat.isFile() && stat.size === f.bytes;
    });
  } catch {
    return false; // It is missing or unreadable; the extraction reports the error.
  }
}

function withLock(root: string, fn: () => void) {
  try {
    mkdirSync(root, { recursive: true, mode: 0o700 });
    const lock = openSync(join(root, "lock"), "w", 0o600);
    try {
      lockExclusive(lock);
      fn();
    } finally {
      closeSync(lock);
    }
  } catch (error) {
    throw explain(error, root);
  }
}

function publish(root: string, dir: string, group: EmbeddedGroup) {
  for (const entry of listDir(root)) {
    if (entry.startsWith("tmp-")) rmSync(join(root, entry), { recursive: true, force: true }); // left by a killed extraction
  }
  const temp = join(root, `tmp-${process.pid}-${Date.now()}`);
  try {
    mkdirSync(temp, { mode: 0o700 });
    const inflate = createInflate();
    for (const file of group.files) writeFile(join(temp, file.rel), file, slicesOf(file, inflate));
    writeSynced(join(temp, MANIFEST), [Buffer.from(manifestOf(group))]);
    for (const sub of new Set(["", ...group.files.map((f) => dirname(f.rel))])) syncDir(join(temp, sub));
    if (!isIntact(dir, group)) rmSync(dir, { recursive: true, force: true }); // It is damaged, and the rename needs a free name.
    renameSync(temp, dir);
    syncDir(root);
  } catch (error) {
    rmSync(temp, { recursive: true, force: true });
    if (!isIntact(dir, group)) throw error; // If it is intact, another process was first, on a file system without locks.
  }
}

function writeFile(path: string, file: EmbeddedFile, slices: Iterable<Uint8Array>) {
  const hash = createHash("sha256");
  const hashed = function* () {
    for (const slice of slices) {
      hash.update(slice);
      yield slice;
    }
  };
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  writeSynced(path, hashed());
  if (hash.digest("hex") !== file.sha256) {
    throw new UsageError(`The executable is damaged: embedded ${file.rel} has the wrong hash. Install verk again.`, 1);
  }
}

function writeSynced(path: string, slices: Iterable<Uint8Array>) {
  const fd = openSync(path, "wx", 0o755);
  try {
    for (const slice of slices) {
      for (let at = 0; at < slice.byteLength; ) at += writeSync(fd, slice, at, slice.byteLength - at);
    }
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

function syncDir(path: string) {
  const fd = openSync(path, "r");
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}

/** Returns undefined if the file cannot be read, which is treated like a missing file. */
function sha256Of(path: string): string | undefined {
  let fd: number | undefined;
  try {
    fd = openSync(path, "r");
    const hash = createHash("sha256");
    const buffer = Buffer.allocUnsafe(1 << 20);
    for (let n = readSync(fd, buffer); n > 0; n = readSync(fd, buffer)) hash.update(buffer.subarray(0, n));
    return hash.digest("hex");
  } catch {
    return undefined;
  } finally {
    if (fd !== undefined) closeSync(fd);
  }
}

function listDir(path: string): string[] {
  try {
    return readdirSync(path);
  } catch {
    return [];
  }
}

const FIXES: Record<string, string> = {
  ENOSPC: "the disk is full: free some space, or choose another data directory with --data",
  EDQUOT: "the disk quota is used up: free some space, or choose another data directory with --data",
  EROFS: "the file system is read-only: choose a writable data directory with --data",
  EACCES: "permission denied: run as the owner of the data directory, or choose another one with --data",
  EPERM: "permission denied: run as the owner of the data directory, or choose another one with --data",
  ENOTDIR: "a file is in the way: choose another data directory with --data",
};

function explain(error: unknown, root: string): unknown {
  const fix = FIXES[(error as NodeJS.ErrnoException).code ?? ""];
  return fix ? new UsageError(`Cannot extract native libraries into ${root}: ${fix}.`, 1, { cause: error }) : error;
}
