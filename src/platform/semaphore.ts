/**
 * Whose turn it is where there are only so many places. Who needs several gets them at once or waits: two that each held
 * a half would wait for each other. The workspace that holds the least is next, so that none can keep the others out.
 */
import type { Clock } from "./clock.ts";

type Waiting = { workspaceId: string; count: number; begin: () => void };

export type Places = {
  readonly free: number;
  readonly waiting: number;
  /** Resolves with what gives them back. Undefined: the line is too long. */
  take: (workspaceId: string, count: number, signal: AbortSignal) => Promise<() => void> | undefined;
};

type Options = {
  total: number;
  maxWaiting: number;
  /** The last free one is for somebody who holds none: what takes long in one workspace does not shut the others out. */
  keepsOne?: boolean;
  /** Places that one workspace may hold. */
  mostEach?: number;
};

export function createPlaces({ total, maxWaiting, keepsOne = false, mostEach = total }: Options): Places {
  let free = total;
  const held = new Map<string, number>();
  let line: Waiting[] = [];

  const heldBy = (workspaceId: string) => held.get(workspaceId) ?? 0;
  const add = (workspaceId: string, count: number) => {
    free -= count;
    const now = heldBy(workspaceId) + count;
    if (now > 0) held.set(workspaceId, now);
    else held.delete(workspaceId);
  };

  const fits = ({ workspaceId, count }: Waiting) =>
    count <= free - (keepsOne && total > 1 && heldBy(workspaceId) > 0 ? 1 : 0);

  /** A workspace that has all it may hold waits for itself alone: it must not hold up the others. */
  const mayHold = ({ workspaceId, count }: Waiting) => heldBy(workspaceId) + count <= mostEach;

  /** Whoever is next and does not fit keeps the smaller ones behind it waiting: else it would wait for ever. */
  function advance() {
    for (;;) {
      const next = line
        .filter(mayHold)
        .reduce<Waiting | undefined>(
          (best, each) => (best && heldBy(best.workspaceId) <= heldBy(each.workspaceId) ? best : each),
          undefined,
        );
      if (!next || !fits(next)) return;
      line = line.filter((each) => each !== next);
      add(next.workspaceId, next.count);
      next.begin();
    }
  }

  function take(workspaceId: string, count: number, signal: AbortSignal) {
    if (line.length >= maxWaiting) return undefined;
    return new Promise<() => void>((resolve, reject) => {
      let isBack = false;
      const giveBack = () => {
        if (isBack) return;
        isBack = true;
        add(workspaceId, -count);
        advance();
      };
      const leave = () => {
        line = line.filter((each) => each !== mine);
        advance(); // the one behind it may fit
        reject(signal.reason);
      };
      const begin = () => {
        signal.removeEventListener("abort", leave);
        resolve(giveBack);
      };
      const mine: Waiting = { workspaceId, count, begin };
      line.push(mine);
      signal.addEventListener("abort", leave, { once: true });
      if (signal.aborted) leave();
      else advance();
    });
  }

  return {
    get free() {
      return free;
    },
    get waiting() {
      return line.length;
    },
    take,
  };
}

export type Asker = { workspaceId: string; signal: AbortSignal };

/** Undefined: it took too long, or the line is too long. Rejects where the asker leaves. */
export async function takeWithin(
  patience: { clock: Clock; ms: number },
  places: Places,
  { workspaceId, signal }: Asker,
  count: number,
): Promise<(() => void) | undefined> {
  const late = new AbortController();
  const over = new AbortController();
  void patience.clock.sleep(patience.ms, over.signal).then(() => late.abort());
  try {
    return await places.take(workspaceId, count, AbortSignal.any([signal, late.signal]));
  } catch (reason) {
    if (signal.aborted) throw reason;
    return undefined;
  } finally {
    over.abort();
  }
}
