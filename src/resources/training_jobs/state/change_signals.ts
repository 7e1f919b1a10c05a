/** Who reads a job's log or waits for its state, and is told when there may be more. */
import type { Ctx } from "../../../context.ts";
import { oncePer } from "../../../lib/once_per.ts";
import type { Db } from "../../../platform/db/db.ts";

const readersOf = oncePer((_db: Db) => new Map<string, Set<() => void>>());

/** The log has more lines, or the job another state. */
export function changed(ctx: Pick<Ctx, "db">, jobId: string) {
  for (const tell of readersOf(ctx.db).get(jobId) ?? []) tell();
}

const LOOK_AGAIN_MS = 1_000; // a change that nobody tells of costs a second

/** Resolves at the next change, soon in any case, or when `signal` aborts. */
export async function nextChange(ctx: Pick<Ctx, "db" | "clock">, jobId: string, signal: AbortSignal): Promise<void> {
  const readers = readersOf(ctx.db);
  const mine = readers.get(jobId) ?? new Set();
  readers.set(jobId, mine);
  const over = new AbortController();
  const tell = () => over.abort();
  mine.add(tell);
  try {
    await ctx.clock.sleep(LOOK_AGAIN_MS, AbortSignal.any([signal, over.signal]));
  } finally {
    mine.delete(tell);
    if (mine.size === 0) readers.delete(jobId);
  }
}
