import { UsageError } from "../lib/errors.ts";
import { isHeld } from "../platform/db/data_lock.ts";
import { EXIT } from "./args.ts";

const RETRY_MS = 5_000;
const PAUSE_MS = 20;

/**
 * Opens the data directory and retries while another command, or a server that is still starting, holds the lock.
 * Such a process may be in the middle of a migration, so errors about the lock and the schema are retried. They are
 * final if a server listens, or if no process held the lock in two attempts.
 */
export async function openDataDir<T>(dir: string, open: () => Promise<T>): Promise<T> {
  const deadline = performance.now() + RETRY_MS;
  let before: Use | undefined;
  for (;;) {
    const use = useOf(dir);
    try {
      return await open();
    } catch (error) {
      const isTemporary =
        error instanceof UsageError && (error.exitCode === EXIT.held || error.exitCode === EXIT.schema);
      // After one attempt, another process may have come between the check and the attempt.
      const twiceFree = use === "free" && before === "free";
      if (!isTemporary || use === "served" || twiceFree || performance.now() > deadline) throw error;
      before = use;
    }
    await Bun.sleep(PAUSE_MS);
  }
}

type Use = "free" | "served" | "busy";

function useOf(dir: string): Use {
  const { held, holder } = isHeld(dir);
  return !held ? "free" : typeof holder?.listen === "string" ? "served" : "busy";
}
