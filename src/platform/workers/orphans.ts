import { readdir, readFile, readlink, stat } from "node:fs/promises";

const PAUSE_MS = 10;
const PASSES = 50; // then it sleeps in the kernel and will die when it wakes
const PASSES_FOR_UNCLEAR = 10;

/**
 * Kills every process of this user that carries `mark` (`NAME=value`) in the environment it was started with, waits
 * until they are gone, and returns their ids. Finds what a process group does not: grandchildren in a session of their
 * own, and those whose server was killed. Not covered: a process that was started with a cleaned environment.
 */
export async function killMarked(mark: string): Promise<number[]> {
  const killed = new Set<number>();
  for (let pass = 0; pass < PASSES; pass++) {
    const { marked, unclear } = await findMarked(mark);
    for (const pid of marked) {
      if (killIfThere(pid)) killed.add(pid);
    }
    if (marked.length === 0 && (unclear === 0 || pass >= PASSES_FOR_UNCLEAR)) break;
    await Bun.sleep(PAUSE_MS);
  }
  return [...killed];
}

/** `unclear`: processes in the middle of a start. */
export async function findMarked(mark: string): Promise<{ marked: number[]; unclear: number }> {
  const names = await readdir("/proc").catch(() => []); // no /proc, no orphans to be found
  const pids = names.map(Number).filter((pid) => Number.isInteger(pid) && pid !== process.pid);
  const verdicts = await Promise.all(pids.map((pid) => checkMark(pid, mark)));
  return {
    marked: pids.filter((_pid, i) => verdicts[i] === "marked"),
    unclear: verdicts.filter((verdict) => verdict === "unclear").length,
  };
}

async function checkMark(pid: number, mark: string): Promise<"marked" | "unclear" | "other"> {
  try {
    if ((await stat(`/proc/${pid}`)).uid !== process.getuid?.()) return "other";
    const environ = await readFile(`/proc/${pid}/environ`, "latin1");
    if (`\0${environ}`.includes(`\0${mark}\0`)) return "marked";
    if (environ !== "") return "other";
    // Empty in the middle of exec, for tens of milliseconds on a busy machine. Zombies and kernel threads have no exe.
    await readlink(`/proc/${pid}/exe`);
    return "unclear";
  } catch {
    return "other"; // gone meanwhile, or not ours to read
  }
}

function killIfThere(pid: number): boolean {
  try {
    process.kill(pid, "SIGKILL");
    return true;
  } catch {
    return false; // gone meanwhile
  }
}
