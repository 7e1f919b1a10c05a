/** The copy of the database that an upgrade makes, and the way back to it. No server may run on the directory. */
import { Database } from "bun:sqlite";
import {
  closeSync,
  copyFileSync,
  existsSync,
  fsyncSync,
  linkSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
} from "node:fs";
import { join } from "node:path";
import { failpoint } from "../failpoint.ts";
import { syncDirSync, tempPath } from "../files.ts";

const fileOf = (dataDir: string) => join(dataDir, "verk.db");

/** 0 if there is no database yet. */
export function databaseVersion(dataDir: string): number {
  if (!existsSync(fileOf(dataDir))) return 0;
  const db = new Database(fileOf(dataDir));
  try {
    return (db.query("PRAGMA user_version").get() as { user_version: number }).user_version;
  } finally {
    db.close();
  }
}

/** Returns the path of the copy. */
export function copyDatabase(dataDir: string, version: number): string {
  const folder = join(dataDir, "backups");
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const path = join(folder, `upgrade-from-${version}.db`);
  const temp = tempPath(folder);
  const db = new Database(fileOf(dataDir));
  try {
    db.run("PRAGMA wal_checkpoint(TRUNCATE)"); // the file alone is then the whole database
    copyFlushed(fileOf(dataDir), temp);
  } finally {
    db.close();
  }
  failpoint("files.before_rename");
  renameSync(temp, path);
  failpoint("files.after_rename");
  syncDirSync(folder);
  return path;
}

/**
 * Puts the copy in place of a database with a newer schema. The newer one stays in backups/ with its log. A kill leaves the newer
 * database, which the old program refuses, or the old one; calling this again goes on from there.
 */
export function restoreDatabase(dataDir: string, copy: string, version: number): string | undefined {
  const current = databaseVersion(dataDir);
  if (current <= version) return undefined;
  const [file, replaced] = [fileOf(dataDir), join(dataDir, "backups", `replaced-${current}.db`)];
  const temp = tempPath(dataDir);
  copyFlushed(copy, temp);
  rmSync(replaced, { force: true });
  // SQLite would apply a log that is left here to the restored file.
  for (const end of ["-wal", "-shm"]) {
    rmSync(replaced + end, { force: true });
    if (existsSync(file + end)) renameSync(file + end, replaced + end);
  }
  linkSync(file, replaced);
  syncDirSync(dataDir);
  failpoint("files.before_rename");
  renameSync(temp, file);
  failpoint("files.after_rename");
  syncDirSync(dataDir);
  return replaced;
}

function copyFlushed(from: string, to: string) {
  copyFileSync(from, to);
  const fd = openSync(to, "r+");
  fsyncSync(fd);
  closeSync(fd);
}
