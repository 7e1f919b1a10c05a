/**
 * Whose turn it is to hold reward processes. A run gets all that it needs at once or waits: two that each held a half
 * would wait for each other. The workspace that holds the least is next, so that none can keep the others out.
 */
import type { Ctx } from "../../context.ts";
import { AppError } from "../../lib/errors.ts";
import { oncePer } from "../../lib/once_per.ts";

const MAX_WAITING = 256;
const PATIENCE_MS = 60_000;

type Waiting = { workspaceId: string; count: number; begin: () => void };

type Places = {
  readonly free: number;
  readonly waiting: number;
  /** Resolves with what gives them back. Undefined: the line is too long. */
  take: (workspaceId: string, count: number, signal: AbortSignal) => Promise<() => void> | undefined;
};

export function createPlaces(total: number): Places {
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

  /** Whoever is next and does not fit keeps the smaller ones behind it waiting: else it would wait for ever. */
  function advance() {
    for (;;) {
      const next = line.reduce<Waiting | undefined>(
        (best, each) => (best && heldBy(best.workspaceId) <= heldBy(each.workspaceId) ? best : each),
        undefined,
      );
      if (!next || next.count > free) return;
      line = line.filter((each) => each !== next);
      add(next.workspaceId, next.count);
      next.begin();
    }
  }

  function take(workspaceId: string, count: number, signal: AbortSignal) {
    if (line.length >= MAX_WAITING) return undefined;
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

const placesOf = oncePer((config: Ctx["config"]) => createPlaces(config.sandbox.processes));

type Asker = { workspaceId: string; signal: AbortSignal };

/** Holds `count` places while it works. Waits a minute at most; then, or where the line is long, 503. */
export async function holding<T>(ctx: Ctx, asker: Asker, count: number, work: () => Promise<T>): Promise<T> {
  const { processes } = ctx.config.sandbox;
  if (count > processes)
    throw new AppError("schema", `This server runs ${processes} reward processes: send ${processes} rewards at most`, {
      param: "/reward_functions",
    });
  const giveBack = await waited(ctx, asker, count);
  if (!giveBack)
    throw new AppError("no_capacity", `All ${processes} reward processes are busy: try again`, {
      retryAfterSeconds: 5,
    });
  try {
    return await work();
  } finally {
    giveBack();
  }
}

async function waited(ctx: Ctx, { workspaceId, signal }: Asker, count: number) {
  const late = new AbortController();
  const over = new AbortController();
  void ctx.clock.sleep(PATIENCE_MS, over.signal).then(() => late.abort());
  try {
    return await placesOf(ctx.config).take(workspaceId, count, AbortSignal.any([signal, late.signal]));
  } catch (reason) {
    if (signal.aborted) throw reason;
    return undefined;
  } finally {
    over.abort();
  }
}
