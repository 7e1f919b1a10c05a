import { readdir, readFile, stat } from "node:fs/promises";

const PASSES = 5; // a process may fork between our reading and our killing

/**
 * Kills every process of this user that carries `mark` (`NAME=value`) in the environment it was started with, and
 * returns their ids. Finds what a process group does not: grandchildren in a session of their own, and those whose
 * server was killed. Not covered: a process that was started with a cleaned environment.
 */
export async function killMarked(mark: string): Promise<number[]> {
  const killed = new Set<number>();
  for (let pass = 0; pass < PASSES; pass++) {
    const found = await findMarked(mark);
    if (found.length === 0) break;
    for (const pid of found) {
      if (killIfThere(pid)) killed.add(pid);
    }
  }
  return [...killed];
}

export async function findMarked(mark: string): Promise<number[]> {
  const names = await readdir("/proc").catch(() => []); // no /proc, no orphans to be found
  const uid = process.getuid?.();
  const found = await Promise.all(
    names.map(async (name) => {
      const pid = Number(name);
      if (!Number.isInteger(pid) || pid === process.pid) return;
      try {
        if ((await stat(`/proc/${pid}`)).uid !== uid) return;
        const environ = await readFile(`/proc/${pid}/environ`, "latin1"); // empty for a zombie
        if (`\0${environ}`.includes(`\0${mark}\0`)) return pid;
      } catch {
        // gone meanwhile, or not ours to read
      }
    }),
  );
  return found.filter((pid) => pid !== undefined);
}

function killIfThere(pid: number): boolean {
  try {
    process.kill(pid, "SIGKILL");
    return true;
  } catch {
    return false; // gone meanwhile
  }
}
