import { UsageError } from "../lib/errors.ts";
import { isHeld } from "../platform/db/data_lock.ts";
import { EXIT } from "./args.ts";

const PATIENCE_MS = 5_000;
const LOOK_MS = 20;

/**
 * Opens the data directory while other commands come and go on it. One of them, or a server that is still starting,
 * holds the lock without listening, and may be half through a migration: what it makes us fail with is not an answer.
 * A server that listens is one, and so is a failure that stays when nobody is at work.
 */
export async function patiently<T>(dir: string, open: () => Promise<T>): Promise<T> {
  const deadline = performance.now() + PATIENCE_MS;
  let before: Use | undefined;
  for (;;) {
    const use = useOf(dir);
    try {
      return await open();
    } catch (error) {
      const passing = error instanceof UsageError && (error.exitCode === EXIT.held || error.exitCode === EXIT.schema);
      const twiceFree = use === "free" && before === "free"; // once, somebody may have come between the look and the try
      if (!passing || use === "served" || twiceFree || performance.now() > deadline) throw error;
      before = use;
    }
    await Bun.sleep(LOOK_MS);
  }
}

type Use = "free" | "served" | "busy";

function useOf(dir: string): Use {
  const { held, holder } = isHeld(dir);
  return !held ? "free" : typeof holder?.listen === "string" ? "served" : "busy";
}
