/** What only this process knows of a session. It dies with the process; the rows and the files do not. */
import type { Ctx } from "../../context.ts";
import { oncePer } from "../../lib/once_per.ts";
import type { Db } from "../../platform/db/db.ts";
import type { Usage } from "../../sandbox/files/sandbox_dir.ts";
import type { SessionRow } from "./table.ts";

export type Live = {
  /** Commands and changes of files that are under way: the directory stays until they are over. */
  readonly flights: Set<Promise<void>>;
  /** Aborts them, when the session ends. */
  readonly ending: AbortController;
  preparing: Promise<void> | undefined;
  removing: boolean;
  /** Commands that run: what they write is not known until it is measured. */
  running: number;
  usedAt: number;
  /** As of the last measurement, and what was put there since; undefined: to be measured. */
  usage: Usage | undefined;
  /** Of files that are on their way in. */
  incomingBytes: number;
  /** A command was ended for what it wrote, or nobody has looked yet. */
  mayBeFull: boolean;
  /** Volumes are written back one at a time. */
  syncing: Promise<unknown>;
};

const livesOf = oncePer((_db: Db) => new Map<string, Live>());

export function liveOf(ctx: Pick<Ctx, "db">, { id, usedAt }: Pick<SessionRow, "id" | "usedAt">): Live {
  const lives = livesOf(ctx.db);
  const known = lives.get(id);
  if (known) return known;
  const live: Live = {
    flights: new Set(),
    ending: new AbortController(),
    preparing: undefined,
    removing: false,
    running: 0,
    usedAt,
    usage: undefined,
    incomingBytes: 0,
    mayBeFull: true,
    syncing: Promise.resolve(),
  };
  lives.set(id, live);
  return live;
}

/** Without beginning to remember one that has ended. */
export const lastUse = (ctx: Pick<Ctx, "db">, { id, usedAt }: SessionRow) =>
  Math.max(usedAt, livesOf(ctx.db).get(id)?.usedAt ?? usedAt);

export const forget = (ctx: Pick<Ctx, "db">, id: string) => void livesOf(ctx.db).delete(id);

export const isBusy = ({ flights, preparing }: Live) => flights.size > 0 || preparing !== undefined;

/** Resolves when nothing is under way any more. */
export async function quiet(live: Live): Promise<void> {
  while (isBusy(live)) await Promise.allSettled([live.preparing, ...live.flights]);
}

/** Something that uses the session: it is not idle before its end. */
export async function during<T>(ctx: Pick<Ctx, "clock">, live: Live, work: () => Promise<T>): Promise<T> {
  const over = Promise.withResolvers<void>();
  live.flights.add(over.promise);
  try {
    return await work();
  } finally {
    live.usedAt = ctx.clock.now();
    live.flights.delete(over.promise);
    over.resolve();
  }
}
