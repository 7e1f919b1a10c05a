/** Commands at the same time, in all sessions. Who waits is served in turn by workspace, not by who asks most. */
import type { Ctx } from "../../context.ts";
import { AppError } from "../../lib/errors.ts";
import { oncePer } from "../../lib/once_per.ts";
import type { Db } from "../../platform/db.ts";

const MOST_WAIT_MS = 30_000;
const MOST_WAITING = 1_000;

type Waiter = { workspaceId: string; go: () => void };
type Slots = { running: Map<string, number>; waiting: Map<string, Waiter[]> };
const slotsOf = oncePer((_db: Db): Slots => ({ running: new Map(), waiting: new Map() }));

const total = ({ running }: Slots) => [...running.values()].reduce((sum, count) => sum + count, 0);

/** The last one is kept for a workspace that has none: long commands of one do not shut the others out. */
function isFree(slots: Slots, workspaceId: string, most: number): boolean {
  const left = most - total(slots);
  return left > 1 || (left === 1 && (most === 1 || !slots.running.has(workspaceId)));
}

function take(ctx: Pick<Ctx, "db" | "config">, slots: Slots, workspaceId: string): () => void {
  slots.running.set(workspaceId, (slots.running.get(workspaceId) ?? 0) + 1);
  return () => {
    const left = (slots.running.get(workspaceId) ?? 1) - 1;
    if (left === 0) slots.running.delete(workspaceId);
    else slots.running.set(workspaceId, left);
    callNext(slots, ctx.config.sessions.execs);
  };
}

function callNext(slots: Slots, most: number) {
  for (const [workspaceId, line] of [...slots.waiting]) {
    if (!isFree(slots, workspaceId, most)) continue;
    slots.waiting.delete(workspaceId);
    const next = line.shift();
    if (line.length > 0) slots.waiting.set(workspaceId, line); // behind the others
    next?.go();
  }
}

/** Gives the way to free it. Throws `no_capacity` when it takes too long. */
export async function takeSlot(
  ctx: Pick<Ctx, "db" | "config" | "clock">,
  workspaceId: string,
  signal: AbortSignal,
): Promise<() => void> {
  const slots = slotsOf(ctx.db);
  const { execs } = ctx.config.sessions;
  const line = slots.waiting.get(workspaceId) ?? [];
  if (line.length === 0 && isFree(slots, workspaceId, execs)) return take(ctx, slots, workspaceId);
  if (line.length >= MOST_WAITING) throw full(execs);
  const turn = Promise.withResolvers<() => void>();
  const waiter: Waiter = { workspaceId, go: () => turn.resolve(take(ctx, slots, workspaceId)) };
  slots.waiting.set(workspaceId, [...line, waiter]);
  const patience = new AbortController();
  const enough = ctx.clock.sleep(MOST_WAIT_MS, AbortSignal.any([patience.signal, signal])).then(() => undefined);
  const got = await Promise.race([turn.promise, enough]);
  patience.abort();
  if (got) return got;
  const left = (slots.waiting.get(workspaceId) ?? []).filter((each) => each !== waiter);
  if (left.length > 0) slots.waiting.set(workspaceId, left);
  else slots.waiting.delete(workspaceId);
  void turn.promise.then((release) => release()); // it came at the same moment
  throw full(execs);
}

const full = (execs: number) =>
  new AppError("no_capacity", `${execs} commands run in the sessions of this server: try again later`, {
    retryAfterSeconds: 10,
  });
