/**
 * Limits the request bodies in memory, by workspace and in all. A body reserves its declared length before it is read,
 * or grows as it arrives, and frees all of it when its request ends.
 * NOT covered: uploads that go to the disk as they arrive, which hold a few chunks each.
 */
import { AppError } from "../../lib/errors.ts";
import { stateOf } from "../request_state.ts";

export type BodyMemory = {
  /** Throws 503 when there is no room for so many bytes more. */
  reserve: (request: Request, workspaceId: string, bytes: number) => void;
  /** Frees the bytes that the request reserved, if any. */
  release: (request: Request) => void;
  /** Bytes that are reserved now. */
  readonly bytes: number;
};

/** A single body is always accepted when nothing else is held: the limit of its route has already been checked. */
const fits = (held: number, more: number, limit: number) => held === 0 || held + more <= limit;

export function createBodyMemory(limits: { all: number; workspace: number }): BodyMemory {
  const byWorkspace = new Map<string, number>();
  let all = 0;
  return {
    get bytes() {
      return all;
    },
    reserve(request, workspaceId, bytes) {
      const state = stateOf(request);
      state.reserved ??= { workspaceId, bytes: 0 };
      const reserved = state.reserved;
      const mine = byWorkspace.get(workspaceId) ?? 0;
      // A request does not compete with its own bytes.
      if (!fits(mine - reserved.bytes, reserved.bytes + bytes, limits.workspace))
        throw full("Other requests of this workspace are being received");
      if (!fits(all - reserved.bytes, reserved.bytes + bytes, limits.all))
        throw full("Other requests are being received");
      reserved.bytes += bytes;
      byWorkspace.set(workspaceId, mine + bytes);
      all += bytes;
    },
    release(request) {
      const state = stateOf(request);
      const reserved = state.reserved;
      if (reserved === undefined) return;
      state.reserved = undefined;
      all -= reserved.bytes;
      const left = (byWorkspace.get(reserved.workspaceId) ?? 0) - reserved.bytes;
      if (left > 0) byWorkspace.set(reserved.workspaceId, left);
      else byWorkspace.delete(reserved.workspaceId);
    },
  };
}

const full = (why: string) =>
  new AppError("no_capacity", `${why}, and the server's memory for request bodies is full: send this one again soon`, {
    retryAfterSeconds: 1,
  });
