/** Live state of a session. It ends with the process; rows and files stay. */
import type { Ctx } from "../../context.ts";
import { oncePer } from "../../lib/once_per.ts";
import type { Config } from "../../platform/config/config.ts";
import type { Db } from "../../platform/db/db.ts";
import { Semaphore } from "../../platform/semaphore.ts";
import type { Usage } from "../../sandbox/files/sandbox_dir.ts";
import type { JailSupport } from "../../sandbox/jail/types.ts";
import type { SessionRow } from "./table.ts";

export type Live = {
  /** Running commands and file operations. The directory is not removed before they end. */
  readonly operations: Set<Promise<void>>;
  /** Aborts the operations when the session ends. */
  readonly ending: AbortController;
  preparing: Promise<void> | undefined;
  removing: boolean;
  /** Number of running commands. While one runs, only a new measurement tells the usage. */
  running: number;
  usedAt: number;
  /** The last measurement plus later uploads. Undefined if the directory must be measured. */
  usage: Usage | undefined;
  /** Bytes of uploads that are in progress. */
  incomingBytes: number;
  /** True until the usage was measured, and after a command was killed for exceeding the disk quota. */
  mayBeFull: boolean;
  /** The last write-back of volumes. The next one waits for it. */
  syncing: Promise<unknown>;
};

const livesOf = oncePer((_db: Db) => new Map<string, Live>());

export function liveOf(ctx: Pick<Ctx, "db">, { id, usedAt }: Pick<SessionRow, "id" | "usedAt">): Live {
  const lives = livesOf(ctx.db);
  const existing = lives.get(id);
  if (existing) return existing;
  const live: Live = {
    operations: new Set(),
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

/** Does not create live state, because the session may have ended. */
export const lastUse = (ctx: Pick<Ctx, "db">, { id, usedAt }: SessionRow) =>
  Math.max(usedAt, livesOf(ctx.db).get(id)?.usedAt ?? usedAt);

export const forget = (ctx: Pick<Ctx, "db">, id: string) => void livesOf(ctx.db).delete(id);

export const isBusy = ({ operations, preparing }: Live) => operations.size > 0 || preparing !== undefined;

/** Resolves when the session has no running operation. */
export async function untilIdle(live: Live): Promise<void> {
  while (isBusy(live)) await Promise.allSettled([live.preparing, ...live.operations]);
}

/** Runs an operation. The session is busy until it ends. */
export async function during<T>(ctx: Pick<Ctx, "clock">, live: Live, work: () => Promise<T>): Promise<T> {
  const over = Promise.withResolvers<void>();
  live.operations.add(over.promise);
  try {
    return await work();
  } finally {
    live.usedAt = ctx.clock.now();
    live.operations.delete(over.promise);
    over.resolve();
  }
}

/** The state of sessions that lives in this process (`ctx.state.sessions`). */
export class SessionsState {
  readonly live = new Map<string, Live>();
  /** The last answer of the host to whether it can run sessions. */
  support: { at: number; answer: Promise<JailSupport> } | undefined;
  straysAt = Number.NEGATIVE_INFINITY;
  started = false;
  /** Commands at the same time, in all sessions. */
  readonly execs: Semaphore;

  constructor({ sessions }: Pick<Config, "sessions">) {
    this.execs = new Semaphore({ permits: sessions.execs, maxWaiting: 1_000, keepsOne: true });
  }
}
