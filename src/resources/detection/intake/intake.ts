/** Bodies of batches in memory: until its images are on the disk, each takes several times its own size. */
import type { Ctx } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";
import { oncePer } from "../../../lib/once_per.ts";
import type { Db } from "../../../platform/db/db.ts";

const heldOf = oncePer((_db: Db) => new Map<string, number>());

type Grow = (bytes: number) => void;

/**
 * A workspace may have as much at a time as one batch, and all of them together twice that; 503 beyond. `work` calls
 * `grow` with the bytes that it is about to hold.
 */
export async function withRoom<T>(ctx: Ctx, workspaceId: string, work: (grow: Grow) => Promise<T>) {
  const most = ctx.config.detect.max_batch_bytes;
  const held = heldOf(ctx.db);
  let own = 0;
  const grow: Grow = (bytes) => {
    const more = Math.min(bytes, most - own); // a body beyond that is refused as such
    const mine = held.get(workspaceId) ?? 0;
    const all = held.values().reduce((sum, each) => sum + each, 0);
    if (mine + more > most || all + more > 2 * most) throw full();
    own += more;
    held.set(workspaceId, mine + more);
  };
  try {
    return await work(grow);
  } finally {
    const left = (held.get(workspaceId) ?? 0) - own;
    if (left > 0) held.set(workspaceId, left);
    else held.delete(workspaceId);
  }
}

const full = () =>
  new AppError("no_capacity", "Other batches are being received: send this one again soon", { retryAfterSeconds: 1 });
