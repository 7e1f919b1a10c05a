/**
 * The loop `sessions.reconcile`: ends what is over and removes what is left of it, also after a kill. A session that is
 * ready stays so over a restart, with its files; what ran in it is gone with the server that ran it.
 */
import { and, eq, isNull } from "drizzle-orm";
import type { Ctx } from "../../context.ts";
import { oncePer } from "../../lib/once_per.ts";
import { type Db, durable, write } from "../../platform/db/db.ts";
import { cleanIncoming } from "../../sandbox/files/sandbox_dir.ts";
import { namesIn, removeTree } from "../../sandbox/files/trees.ts";
import { forget, isBusy, liveOf } from "./live.ts";
import { prepare } from "./prepare.ts";
import * as sessions from "./service.ts";
import { type SessionRow, sessions as table } from "./table.ts";
import { dirOf, sessionsDir } from "./workspace/paths.ts";

const STRAYS_MS = 600_000;
const sweptOf = oncePer((_db: Db) => ({ straysAt: Number.NEGATIVE_INFINITY, started: false }));

export async function reconcile(ctx: Ctx): Promise<void> {
  const rows = ctx.db.select().from(table).where(isNull(table.removedAt)).all();
  for (const row of rows) {
    try {
      drive(ctx, row);
    } catch (error) {
      ctx.log.error("a session could not be driven", { session: row.id, error }); // its siblings go on
    }
  }
  await sweep(ctx, rows);
}

function drive(ctx: Ctx, row: SessionRow) {
  const live = liveOf(ctx, row);
  const now = ctx.clock.now();
  if (row.status === "creating" || row.status === "ready") {
    if (now >= row.expiresAt || isIdle(row, live.usedAt, isBusy(live), now)) sessions.begin(ctx, row.id, "expire");
    else if (row.status === "ready") recordUse(ctx, row, live.usedAt);
    else prepare(ctx, row).catch((error) => ctx.log.error("a session was not made", { session: row.id, error })); // cut off by a kill, or under way
    return;
  }
  if (isBusy(live) || live.removing) return;
  if (row.status === "stopping") sessions.finish(ctx, row.id);
  live.removing = true;
  remove(ctx, row.id)
    .catch((error) => ctx.log.error("files of a session were not removed", { session: row.id, error })) // the next tick tries again
    .finally(() => {
      live.removing = false;
    });
}

/** Beside the loop: it may be a million files, and others are due meanwhile. */
async function remove(ctx: Ctx, id: string) {
  await durable(ctx.db); // that it is over may be news of this moment
  await removeTree(dirOf(ctx, id));
  write(ctx.db, (tx) => tx.update(table).set({ removedAt: ctx.clock.now() }).where(eq(table.id, id)).run());
  forget(ctx, id);
}

const isIdle = (row: SessionRow, usedAt: number, busy: boolean, now: number) =>
  row.status === "ready" && !busy && now - Math.max(row.usedAt, usedAt) >= row.idleSeconds * 1000;

/** Calls that only read do not write; their time is written down here. */
function recordUse(ctx: Ctx, row: SessionRow, usedAt: number) {
  if (usedAt <= row.usedAt) return;
  const stillReady = and(eq(table.id, row.id), eq(table.status, "ready"));
  write(ctx.db, (tx) => tx.update(table).set({ usedAt }).where(stillReady).run());
}

/** Directories that no row knows; and, once, files that were on their way in when the last server ended. */
async function sweep(ctx: Ctx, rows: readonly SessionRow[]) {
  const state = sweptOf(ctx.db);
  const now = ctx.clock.now();
  if (now - state.straysAt < STRAYS_MS) return;
  state.straysAt = now;
  for (const name of await namesIn(sessionsDir(ctx))) if (!sessions.find(ctx, name)) await removeTree(dirOf(ctx, name));
  if (state.started) return;
  state.started = true;
  const oldest = Date.now() - performance.timeOrigin; // files have the machine's time, not the clock's
  for (const { id, status } of rows) if (status === "ready") await cleanIncoming(dirOf(ctx, id), oldest);
}
