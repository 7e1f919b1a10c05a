/** Limits the bodies of batches in memory. Until its images are on the disk, a body takes several times its size. */
import type { Ctx } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";

type Grow = (bytes: number) => void;

/**
 * A workspace may hold the bytes of one batch, and all workspaces together twice that. Beyond it the answer is 503.
 * `work` calls `grow` with the bytes that it is about to hold.
 */
export async function withRoom<T>(ctx: Ctx, workspaceId: string, work: (grow: Grow) => Promise<T>) {
  const most = ctx.config.detect.max_batch_bytes;
  const held = ctx.state.detection.intake;
  let taken = 0;
  const grow: Grow = (bytes) => {
    const more = Math.min(bytes, most - taken); // the body limit rejects what is beyond it
    const ofWorkspace = held.get(workspaceId) ?? 0;
    const all = held.values().reduce((sum, each) => sum + each, 0);
    if (ofWorkspace + more > most || all + more > 2 * most) throw full();
    taken += more;
    held.set(workspaceId, ofWorkspace + more);
  };
  try {
    return await work(grow);
  } finally {
    const left = (held.get(workspaceId) ?? 0) - taken;
    if (left > 0) held.set(workspaceId, left);
    else held.delete(workspaceId);
  }
}

const full = () =>
  new AppError("no_capacity", "Other batches are being received. Send this one again in a second", {
    retryAfterSeconds: 1,
  });
