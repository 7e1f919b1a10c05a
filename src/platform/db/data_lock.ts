/**
 * One server per data directory. The lock is an exclusive SQLite transaction held open on `<data>/lock`: a POSIX
 * record lock, which the kernel drops when the process dies and which children do not inherit.
 *
 * Trap: POSIX drops a process's record locks when it closes *any* descriptor of the file. Never open `<data>/lock`
 * with fs in the server.
 *
 * `<data>/server.json` only words the message: it may be stale, and nothing is decided by it.
 */
import { Database } from "bun:sqlite";
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { UsageError } from "../../lib/errors.ts";
import { isFull } from "./errors.ts";

export type Holder = {
  pid: number;
  listen: string | null;
  /** The socket for commands of this machine, where `listen` speaks TLS. */
  socket?: string | undefined;
  started_at: string;
  version: string;
};

export type DataLock = {
  /** Writes down the address once it is bound: the lock is taken long before. */
  announce: (listen: string, socket?: string) => void;
  release: () => void;
};

export const EXIT_DATA_DIR_HELD = 3;
const PROBE_PATIENCE_MS = 250; // an `isHeld` elsewhere holds a shared lock for an instant
const open = new Set<Database>(); // a collected Database would close itself and drop the lock

export function acquireDataLock(dir: string, about: { version: string; listen?: string }): DataLock {
  const root = rootOf(dir);
  const holder: Holder = {
    pid: process.pid,
    listen: about.listen ?? null,
    started_at: new Date().toISOString(),
    version: about.version,
  };
  const db = guarded(root, () => {
    mkdirSync(root, { recursive: true, mode: 0o700 });
    return lockExclusively(root);
  });
  try {
    guarded(root, () => writeHolder(root, holder));
  } catch (error) {
    db.close();
    throw error;
  }
  open.add(db);
  let held = true;
  return {
    announce(listen, socket) {
      if (held) guarded(root, () => writeHolder(root, { ...holder, listen, socket }));
    },
    release() {
      if (!held) return;
      held = false;
      rmSync(join(root, "server.json"), { force: true }); // while the lock is ours, so is the file
      open.delete(db);
      db.close();
    },
  };
}

/** For the command line: is a server using this directory now, and which? */
export function isHeld(dir: string): { held: boolean; holder?: Holder } {
  const root = rootOf(dir);
  if (!existsSync(join(root, "lock"))) return { held: false };
  const db = guarded(root, () => new Database(join(root, "lock"), { readonly: true }));
  try {
    db.prepare("SELECT count(*) FROM sqlite_schema").get(); // needs a shared lock, which an exclusive one refuses
    return { held: false };
  } catch (error) {
    if (!isBusy(error)) throw error;
    const holder = readHolder(root);
    return holder ? { held: true, holder } : { held: true };
  } finally {
    db.close();
  }
}

/** SQLite takes 512 bytes, of which the name of a backup in the making is the longest that we add. */
const MAX_ROOT_BYTES = 460;

function rootOf(dir: string): string {
  const root = resolve(dir);
  if (Buffer.byteLength(root) <= MAX_ROOT_BYTES) return root;
  throw new UsageError(
    `The data directory ${root} cannot be used: its path is longer than ${MAX_ROOT_BYTES} bytes. Choose another with --data.`,
  );
}

function lockExclusively(root: string): Database {
  const db = new Database(join(root, "lock"), { create: true });
  try {
    db.run(`PRAGMA busy_timeout = ${PROBE_PATIENCE_MS}`);
    db.run("PRAGMA journal_mode = MEMORY"); // nothing is ever written: no journal file either
    db.run("BEGIN EXCLUSIVE");
    return db;
  } catch (error) {
    db.close();
    if (isBusy(error)) throw new UsageError(heldMessage(root, readHolder(root)), EXIT_DATA_DIR_HELD);
    throw error;
  }
}

function heldMessage(root: string, holder: Holder | undefined): string {
  const who = holder
    ? `process ${holder.pid}${holder.listen ? `, listening on ${holder.listen}` : ""}, since ${holder.started_at}`
    : "another process";
  const stop = holder ? `stop it first (kill ${holder.pid})` : "stop it first";
  return `The data directory ${root} is in use by a running server (${who}). Use that server, ${stop}, or choose another directory with --data.`;
}

function writeHolder(root: string, holder: Holder) {
  const temp = join(root, `server.json.${process.pid}.tmp`);
  writeFileSync(temp, `${JSON.stringify(holder)}\n`, { mode: 0o600 });
  renameSync(temp, join(root, "server.json"));
}

function readHolder(root: string): Holder | undefined {
  try {
    const holder = JSON.parse(readFileSync(join(root, "server.json"), "utf8")) as Partial<Holder> | null;
    return typeof holder?.pid === "number" ? (holder as Holder) : undefined;
  } catch {
    return undefined; // absent, or not ours to read: the lock itself has already said what matters
  }
}

const codeOf = (error: unknown) => String((error as { code?: unknown } | null)?.code ?? "");
const isBusy = (error: unknown) => codeOf(error).startsWith("SQLITE_BUSY");

const REASONS: [pattern: RegExp, reason: string][] = [
  [/^(ENOSPC|EDQUOT|SQLITE_FULL)/, "the disk is full: free some space"],
  [/^(EROFS|SQLITE_READONLY)/, "it is read-only: mount it writable or choose another with --data"],
  [/^(EACCES|EPERM|SQLITE_PERM|SQLITE_CANTOPEN)/, "access is denied: give this user read and write permission"],
  [/^(ENOTDIR|EEXIST)/, "it is not a directory: choose another with --data"],
];

function guarded<T>(root: string, body: () => T): T {
  try {
    return body();
  } catch (error) {
    const reason = REASONS.find(([pattern]) => pattern.test(codeOf(error)))?.[1];
    if (!reason) throw error;
    // Space can come back by itself, so a full disk has exit code 1: systemd tries again.
    const exitCode = isFull(error) ? 1 : 2;
    throw new UsageError(`The data directory ${root} cannot be used: ${reason}.`, exitCode, { cause: error });
  }
}
