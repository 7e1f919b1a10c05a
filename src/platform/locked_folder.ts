/**
 * Folders for work that takes minutes. A locked file beside each shows that its process lives: the kernel drops the lock
 * when the process dies, and the next sweep removes the folder.
 */
import { Database } from "bun:sqlite";
import { randomBytes } from "node:crypto";
import { mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";

const LOCK = ".lock";
const held = new Set<Database>(); // a collected Database would close itself and drop the lock

export type LockedFolder = { dir: string; remove: () => Promise<void> };

/** Makes an empty folder below `root`. */
export async function makeLockedFolder(root: string): Promise<LockedFolder> {
  await mkdir(root, { recursive: true, mode: 0o700 });
  const dir = join(root, randomBytes(8).toString("hex"));
  const lock = take(dir + LOCK);
  if (!lock) throw new Error(`${dir}${LOCK} is locked by another process`); // its name is random
  held.add(lock);
  await mkdir(dir, { mode: 0o700 });
  return {
    dir,
    async remove() {
      await rm(dir, { recursive: true, force: true });
      await rm(dir + LOCK, { force: true });
      held.delete(lock);
      lock.close();
    },
  };
}

/** Removes the folders below `root` whose processes were killed. */
export async function removeAbandonedFolders(root: string) {
  for (const name of await readdir(root).catch(() => [])) {
    if (!name.endsWith(LOCK)) continue;
    const lock = take(join(root, name));
    if (!lock) continue;
    await rm(join(root, name.slice(0, -LOCK.length)), { recursive: true, force: true });
    await rm(join(root, name), { force: true });
    lock.close();
  }
}

/** Undefined: another process, or another part of this one, has it. */
function take(path: string): Database | undefined {
  const db = new Database(path, { create: true });
  try {
    db.run("PRAGMA busy_timeout = 0");
    db.run("BEGIN EXCLUSIVE");
    return db;
  } catch {
    db.close();
    return undefined;
  }
}
