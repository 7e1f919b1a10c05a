/**
 * Limits open streams: event feeds, logs, output of commands, streamed completions. Each holds a connection for as long
 * as its reader likes, so a key, a workspace and the server have limits. Streams leave some connections to other
 * requests.
 */
import type { Ctx, Principal } from "../../context.ts";
import { AppError } from "../../lib/errors.ts";

export type StreamLimits = { key: number; workspace: number; all: number };
type Holder = Pick<Principal, "keyId" | "workspaceId">;

const RESERVE = 64; // connections
/** They are counted again after this many new streams or this long: each takes one, or two with its worker. */
const RECOUNT_STREAMS = 16;
const RECOUNT_MS = 250;

export type Streams = {
  /** Throws 429 or 503. Returns the function that closes the stream; a second call has no effect. */
  open: (holder: Holder) => () => void;
};

/** `left`: how many connections may still be accepted; undefined: there is no limit. */
export function createStreams(limits: StreamLimits, left: () => number | undefined): Streams {
  const counts = new Map<string, number>();
  const countOf = (name: string) => counts.get(name) ?? 0;
  const add = (name: string, more: 1 | -1) => {
    const count = countOf(name) + more;
    if (count > 0) counts.set(name, count);
    else counts.delete(name);
  };
  return {
    open({ keyId, workspaceId }) {
      const named = [
        [`key ${keyId}`, limits.key, "This key has"],
        [`workspace ${workspaceId}`, limits.workspace, "This workspace has"],
        ["all", limits.all, "All clients together have"],
      ] as const;
      for (const [name, most, who] of named)
        if (most > 0 && countOf(name) >= most) throw tooMany(who, most, name === "all");
      if ((left() ?? Number.POSITIVE_INFINITY) < RESERVE)
        throw new AppError(
          "no_capacity",
          "The server has few connections left and opens no more streams: try again soon",
          {
            retryAfterSeconds: 5,
          },
        );
      for (const [name] of named) add(name, 1);
      let isOpen = true;
      return () => {
        if (!isOpen) return;
        isOpen = false;
        for (const [name] of named) add(name, -1);
      };
    },
  };
}

const tooMany = (who: string, most: number, isAll: boolean) =>
  new AppError(isAll ? "no_capacity" : "rate_limited", `${who} ${most} streams open, the most at a time: close some`, {
    retryAfterSeconds: 5,
  });

/** Caches the count: with many descriptors open, counting them takes a millisecond. */
export function recounting(count: () => number | undefined): () => number | undefined {
  let at = Number.NEGATIVE_INFINITY;
  let since = 0;
  let last: number | undefined;
  return () => {
    const now = performance.now();
    if (now - at > RECOUNT_MS || ++since > RECOUNT_STREAMS) {
      last = count();
      [at, since] = [now, 0];
    }
    return last === undefined ? undefined : last - 2 * since;
  };
}

export const openStream = (ctx: Ctx, holder: Holder): (() => void) => ctx.state.http.streams.open(holder);
