/** Bodies of batches in memory: until its images are on the disk, each takes several times its own size. */
import type { Ctx } from "../../context.ts";
import { AppError } from "../../lib/errors.ts";
import { oncePer } from "../../lib/once_per.ts";
import type { Db } from "../../platform/db.ts";

const heldOf = oncePer((_db: Db) => new Map<string, number>());

type Arrival = { workspaceId: string; request: Request };

/**
 * A workspace may have as much at a time as one batch, and all of them together twice that; 503 beyond. A body that does
 * not say its length is counted as it comes: `work` is to read the request that it is given.
 */
export async function withRoom<T>(ctx: Ctx, { workspaceId, request }: Arrival, work: (request: Request) => Promise<T>) {
  const most = ctx.config.detect.max_batch_bytes;
  const held = heldOf(ctx.db);
  let own = 0;
  const grow = (bytes: number) => {
    const more = Math.min(bytes, most - own); // a body beyond that is refused as such
    const mine = held.get(workspaceId) ?? 0;
    const all = held.values().reduce((sum, each) => sum + each, 0);
    if (mine + more > most || all + more > 2 * most) throw full();
    own += more;
    held.set(workspaceId, mine + more);
  };
  try {
    const declared = request.headers.get("content-length");
    if (declared !== null) grow(Number(declared));
    return await work(declared === null ? counted(request, grow) : request);
  } finally {
    const left = (held.get(workspaceId) ?? 0) - own;
    if (left > 0) held.set(workspaceId, left);
    else held.delete(workspaceId);
  }
}

const full = () =>
  new AppError("no_capacity", "Other batches are being received: send this one again soon", { retryAfterSeconds: 1 });

function counted(request: Request, grow: (bytes: number) => void): Request {
  if (request.body === null) return request;
  const counting = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      grow(chunk.byteLength);
      controller.enqueue(chunk);
    },
  });
  return new Request(request, { body: request.body.pipeThrough(counting) });
}
