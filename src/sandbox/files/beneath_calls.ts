/**
 * System calls on directories by descriptor, for trees that other programs change at the same time. A name is one
 * component, relative to a descriptor. Names are bytes, because a file name need not be UTF-8.
 */
import { closeSync, constants } from "node:fs";
import { platform } from "../../native/platform/index.ts";
import { addressOf, NR, syscall } from "../../native/syscalls.ts";

export const O = { ...constants, O_CLOEXEC: 0o2000000, O_PATH: 0o10000000 } as const;
export const AT_FDCWD = -100;
const AT_SYMLINK_NOFOLLOW = 0x100;
const AT_SYMLINK_FOLLOW = 0x400;
const AT_EMPTY_PATH = 0x1000;
const AT_REMOVEDIR = 0x200;
const RENAME_NOREPLACE = 1;
const PATH_BYTES = 4096;

// biome-ignore format: a table should look like one
const ERRNO = {
  1: "EPERM", 2: "ENOENT", 5: "EIO", 6: "ENXIO", 11: "EAGAIN", 12: "ENOMEM", 13: "EACCES", 16: "EBUSY", 17: "EEXIST",
  18: "EXDEV", 20: "ENOTDIR", 21: "EISDIR", 22: "EINVAL", 24: "EMFILE", 28: "ENOSPC", 30: "EROFS", 36: "ENAMETOOLONG",
  38: "ENOSYS", 39: "ENOTEMPTY", 40: "ELOOP", 116: "ESTALE", 122: "EDQUOT",
} as const;

export class CallError extends Error {
  readonly code: string;
  readonly syscall: string;
  constructor(call: string, errno: number) {
    const code = ERRNO[errno as keyof typeof ERRNO] ?? `errno ${errno}`;
    super(`${call}: ${code}`);
    this.name = "CallError";
    this.code = code;
    this.syscall = call;
  }
}

export type Name = string | Uint8Array;

// Buffers of the module outlive every call. Calls are synchronous, so no call overwrites the buffers of another.
const names = [Buffer.alloc(PATH_BYTES), Buffer.alloc(PATH_BYTES)] as const;
const how = new BigUint64Array(3);
const answer = Buffer.alloc(32_768);
const stats = Buffer.alloc(144);

/** Copies the name into a buffer of its own with a NUL, and returns the address. */
function pointerTo(slot: 0 | 1, name: Name): number {
  const buffer = names[slot];
  const bytes = typeof name === "string" ? Buffer.from(name) : name;
  if (bytes.length >= PATH_BYTES) throw new CallError("path", 36);
  if (bytes.includes(0)) throw new CallError("path", 22);
  buffer.set(bytes);
  buffer[bytes.length] = 0;
  return addressOf(buffer);
}

export function must(call: string, result: number): number {
  if (result < 0) throw new CallError(call, -result);
  return result;
}

/** Both return a descriptor, or the negative error number. */
export function openat(dir: number, name: Name, flags: number, mode: number): number {
  return syscall(NR.openat, dir, pointerTo(0, name), flags, mode);
}

export function openat2(dir: number, name: Name, flags: number, mode: number, resolve: bigint): number {
  how.set([BigInt(flags), BigInt(mode), resolve]);
  return syscall(NR.openat2, dir, pointerTo(0, name), addressOf(how), how.byteLength);
}

export function within<T>(fd: number, use: (fd: number) => T): T {
  let later = false;
  try {
    const value = use(fd);
    if (value instanceof Promise) {
      later = true;
      return value.finally(() => closeSync(fd)) as T; // `finally` keeps the type of the promise.
    }
    return value;
  } finally {
    if (!later) closeSync(fd);
  }
}

export type Kind = "file" | "directory" | "symlink" | "other";
export type Entry = { name: Buffer; kind: Kind };
const DT: Record<number, Kind> = { 4: "directory", 8: "file", 10: "symlink" };
const DT_UNKNOWN = 0;

/** Reads the next few hundred entries of a directory. Returns an empty list at the end. */
export function entriesOf(dir: number): Entry[] {
  for (;;) {
    const bytes = must("getdents64", syscall(NR.getdents64, dir, addressOf(answer), answer.length));
    if (bytes === 0) return [];
    const entries: { name: Buffer; kind: Kind | undefined }[] = [];
    for (let at = 0; at < bytes; ) {
      const length = answer.readUInt16LE(at + 16);
      const type = answer[at + 18] as number;
      const end = answer.indexOf(0, at + 19);
      const name = Buffer.from(answer.subarray(at + 19, end));
      at += length;
      if ((name[0] === 46 && name.length === 1) || (name.length === 2 && name[0] === 46 && name[1] === 46)) continue;
      entries.push({ name, kind: type === DT_UNKNOWN ? undefined : (DT[type] ?? "other") });
    }
    if (entries.length > 0) return entries.map(({ name, kind }) => ({ name, kind: kind ?? kindAt(dir, name) }));
  }
}

/** For file systems that do not store the kind in the directory. */
function kindAt(dir: number, name: Buffer): Kind {
  try {
    return statAt(dir, name).kind;
  } catch (error) {
    if (error instanceof CallError) return "other"; // deleted meanwhile
    throw error;
  }
}

export const rewind = (dir: number) => must("lseek", syscall(NR.lseek, dir, 0, 0));

export type Stat = {
  kind: Kind;
  bytes: number;
  blocksBytes: number;
  links: number;
  inode: bigint;
  mtimeNs: bigint;
  ctimeNs: bigint;
};

const KINDS = new Map<number, Kind>([
  [constants.S_IFDIR, "directory"],
  [constants.S_IFREG, "file"],
  [constants.S_IFLNK, "symlink"],
]);

const AT = platform.stat;
const timeAt = (at: number) => stats.readBigInt64LE(at) * 1_000_000_000n + stats.readBigInt64LE(at + 8);

function readStat(): Stat {
  return {
    kind: KINDS.get(stats.readUInt32LE(AT.mode) & constants.S_IFMT) ?? "other",
    bytes: Number(stats.readBigInt64LE(48)),
    blocksBytes: Number(stats.readBigInt64LE(64)) * 512,
    links: AT.linksBytes === 8 ? Number(stats.readBigUInt64LE(AT.links)) : stats.readUInt32LE(AT.links),
    inode: stats.readBigUInt64LE(8),
    mtimeNs: timeAt(88),
    ctimeNs: timeAt(104),
  };
}

/** Does not follow a link. */
export function statAt(dir: number, name: Name): Stat {
  must("fstatat", syscall(NR.newfstatat, dir, pointerTo(0, name), addressOf(stats), AT_SYMLINK_NOFOLLOW));
  return readStat();
}

export function statOf(fd: number): Stat {
  must("fstat", syscall(NR.newfstatat, fd, pointerTo(0, ""), addressOf(stats), AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW));
  return readStat();
}

const STATX_MNT_ID = 0x1000;
const MNT_ID_AT = 144;

/** The mount of a file. Not the device: on overlayfs a directory and its files have different ones. */
export function mountOf(fd: number): bigint {
  must("statx", syscall(NR.statx, fd, pointerTo(0, ""), AT_EMPTY_PATH, STATX_MNT_ID, addressOf(answer)));
  return answer.readBigUInt64LE(MNT_ID_AT);
}

/** Reads the target of a link that was opened with O_PATH and O_NOFOLLOW. */
export function linkOf(fd: number): Buffer {
  const bytes = must("readlinkat", syscall(NR.readlinkat, fd, pointerTo(0, ""), addressOf(answer), PATH_BYTES));
  return Buffer.from(answer.subarray(0, bytes));
}

export const makeDirAt = (dir: number, name: Name, mode = 0o755) =>
  must("mkdirat", syscall(NR.mkdirat, dir, pointerTo(0, name), mode));

/** Hard-links an open file to the absolute path `to`. Fails across file systems, and if `to` exists. */
export const linkOpened = (fd: number, to: string) =>
  must(
    "linkat",
    syscall(NR.linkat, AT_FDCWD, pointerTo(0, `/proc/self/fd/${fd}`), AT_FDCWD, pointerTo(1, to), AT_SYMLINK_FOLLOW),
  );

export const giveAt = (dir: number, name: Name, { uid, gid }: { uid: number; gid: number }) =>
  must("fchownat", syscall(NR.fchownat, dir, pointerTo(0, name), uid, gid, AT_SYMLINK_NOFOLLOW));

export const unlinkAt = (dir: number, name: Name) => must("unlinkat", syscall(NR.unlinkat, dir, pointerTo(0, name), 0));

export const removeDirAt = (dir: number, name: Name) =>
  must("unlinkat", syscall(NR.unlinkat, dir, pointerTo(0, name), AT_REMOVEDIR));

type DirEntry = readonly [dir: number, name: Name];
/** Replaces `to`; a link is replaced itself, not its target. With `fresh`, fails if `to` exists. */
export const renameAt = ([fromDir, from]: DirEntry, [toDir, to]: DirEntry, { fresh = false } = {}) =>
  must(
    "renameat2",
    syscall(NR.renameat2, fromDir, pointerTo(0, from), toDir, pointerTo(1, to), fresh ? RENAME_NOREPLACE : 0),
  );
