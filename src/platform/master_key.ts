/**
 * The file of the master key. A rotation has three steps: the new key is written to `FILE.next`, the database is sealed
 * under it in one commit, and `FILE.next` becomes `FILE`. The database names its key, so a start after a kill knows which
 * of both files is right. The old key stays as `FILE.old-ID`, because older backups may need it.
 */
import { createHash, randomBytes } from "node:crypto";
import {
  closeSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  statSync,
  unlinkSync,
  writeSync,
} from "node:fs";
import { dirname } from "node:path";
import { UsageError } from "../lib/errors.ts";
import { failpoint } from "./failpoint.ts";
import { asStorageError, errorCode, syncDirSync, tempPath } from "./files.ts";

export const generateMasterKey = (): Uint8Array => randomBytes(32);

export const keyIdOf = (master: Uint8Array) =>
  createHash("sha256").update("verk:v1:key-id:").update(master).digest("hex").slice(0, 8);

const nextOf = (file: string) => `${file}.next`;

/** The key of a rotation that has begun, made if there is none. It is on the disk before it seals anything. */
export function nextMasterKey(file: string): Uint8Array {
  const next = readMasterKey(nextOf(file));
  if (next) return next;
  makeMasterKey(nextOf(file));
  return readMasterKey(nextOf(file))!;
}

/** Makes `FILE.next` the master key if it has this id. Undefined: there is no such rotation. */
export function finishRotation(file: string, keyId: string): Uint8Array | undefined {
  const next = readMasterKey(nextOf(file));
  if (!next || keyIdOf(next) !== keyId) return undefined;
  const old = readMasterKey(file);
  try {
    if (old) linkUnlessThere(file, oldNameOf(file, keyIdOf(old)));
    failpoint("secrets.before_rotated");
    renameSync(nextOf(file), file);
    failpoint("secrets.after_rotated");
    syncDirSync(dirname(file));
  } catch (error) {
    throw asStorageError(file, "replace", error);
  }
  return next;
}

export const oldNameOf = (file: string, keyId: string) => `${file}.old-${keyId}`;

/** The key of this id among the file and a rotation that a kill cut off. It changes nothing: for backups. */
export function masterKeyFor(file: string, keyId: string | undefined): Uint8Array | undefined {
  const key = readMasterKey(file);
  if (keyId === undefined || (key && keyIdOf(key) === keyId)) return key;
  const next = readMasterKey(nextOf(file));
  return next && keyIdOf(next) === keyId ? next : undefined;
}

function linkUnlessThere(from: string, to: string) {
  try {
    linkSync(from, to);
  } catch (error) {
    if (errorCode(error) !== "EEXIST") throw error; // a kill came after the link
  }
}

/** Undefined if there is no such file. */
export function readMasterKey(file: string): Uint8Array | undefined {
  let text: string;
  try {
    const { mode, uid } = statSync(file);
    checkMode(file, mode, uid);
    text = readFileSync(file, "utf8").trim();
  } catch (error) {
    if (errorCode(error) === "ENOENT") return undefined;
    throw asStorageError(file, "read", error);
  }
  if (!/^[0-9a-f]{64}$/i.test(text))
    throw new UsageError(`The master key ${file} is damaged: it must hold 64 hex digits. Restore it from your backup.`);
  return Buffer.from(text, "hex");
}

/** True if a key file of this mode and owner can be read by its user alone. */
export const isPrivate = (mode: number, uid: number) =>
  (mode & 0o077) === 0 ||
  // systemd hands a credential to a service user as root's 0440 file with an access list for that user alone
  ((mode & 0o777) === 0o440 && uid === 0 && process.getuid?.() !== 0);

function checkMode(file: string, mode: number, uid: number) {
  if (isPrivate(mode, uid)) return;
  const shown = (mode & 0o777).toString(8).padStart(4, "0");
  throw new UsageError(`The master key ${file} may be read by others (mode ${shown}). Run: chmod 600 ${file}`);
}

/** Whole or not at all, and never over an existing key: flushed under another name, then linked to its own. */
export function makeMasterKey(file: string) {
  const dir = dirname(file);
  const temp = tempPath(dir);
  try {
    mkdirSync(dir, { recursive: true, mode: 0o700 });
    const fd = openSync(temp, "wx", 0o600);
    try {
      writeSync(fd, `${Buffer.from(generateMasterKey()).toString("hex")}\n`);
      fsyncSync(fd);
    } finally {
      closeSync(fd);
    }
    failpoint("secrets.before_link");
    linkSync(temp, file);
    failpoint("secrets.after_link");
    syncDirSync(dir);
  } catch (error) {
    if (errorCode(error) !== "EEXIST") throw asStorageError(file, "create", error); // else: another process was first
  } finally {
    try {
      unlinkSync(temp);
    } catch {
      // it was never made
    }
  }
}
