/**
 * The loop `sessions.reconcile`: ends sessions that are due and removes the files of ended ones, also after a kill. A
 * ready session stays ready over a restart and keeps its files. Its commands end with the server that started them.
 */
import { and, eq, isNull } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { nextTurn, takingTurns } from "../../../lib/turns.ts";
import { MINUTE_MS } from "../../../lib/units.ts";
import { durable, prepared, write } from "../../../platform/db/db.ts";
import { cleanIncoming } from "../../../sandbox/files/sandbox_dir.ts";
import { namesIn, removeTree } from "../../../sandbox/files/trees.ts";
import type { LiveSession } from "./live.ts";
import { prepare } from "./prepare.ts";
import * as sessions from "./service.ts";
import { type SessionRow, sessions as table } from "./table.ts";
import { dirOf, sessionsDir } from "./workspace/paths.ts";

const SWEEP_MS = 10 * MINUTE_MS;

const unremoved = prepared((db) => db.select().from(table).where(isNull(table.removedAt)).prepare());

export async function reconcile(ctx: Ctx): Promise<void> {
  const rows = unremoved(ctx.db).all();
  const turn = takingTurns();
  for (const row of rows) {
    await turn();
    try {
      reconcileOne(ctx, row);
    } catch (error) {
      ctx.log.error("reconciling a session failed", { session: row.id, error }); // The other sessions go on.
    }
  }
  await sweep(ctx, rows);
}

function reconcileOne(ctx: Ctx, row: SessionRow) {
  const live = ctx.state.sessions.of(row);
  const now = ctx.state.trustedClock.now(); // a clock that is wrong for a minute must not end sessions with their files
  if (row.status === "creating" || row.status === "ready") {
    if (now >= row.expiresAt || isIdle(row, live, now)) sessions.begin(ctx, row.id, "expire");
    else if (row.status === "ready") recordUse(ctx, row, live.usedAt);
    // A session that is still creating was interrupted by a kill, or is being prepared: this joins it.
    else prepare(ctx, row).catch((error) => ctx.log.error("creating a session failed", { session: row.id, error }));
    return;
  }
  if (live.isBusy || live.removing) return;
  if (row.status === "stopping") sessions.finish(ctx, row.id);
  live.removing = true;
  remove(ctx, row.id)
    // The next run of the loop tries again.
    .catch((error) => ctx.log.error("removing the files of a session failed", { session: row.id, error }))
    .finally(() => {
      live.removing = false;
    });
}

/** Not awaited by the loop: a session may have a million files, and other sessions are due meanwhile. */
async function remove(ctx: Ctx, id: string) {
  await durable(ctx.db); // The end of the session may not be on the disk yet.
  await nextTurn(); // many sessions may end together
  await removeTree(dirOf(ctx, id));
  write(ctx.db, (tx) => tx.update(table).set({ removedAt: ctx.clock.now() }).where(eq(table.id, id)).run());
  ctx.state.sessions.forget(id);
}

const isIdle = (row: SessionRow, { usedAt, isBusy }: LiveSession, now: number) =>
  row.status === "ready" && !isBusy && now - Math.max(row.usedAt, usedAt) >= row.idleSeconds * 1000;

/** Calls that only read do not write the row. The loop records their time. */
function recordUse(ctx: Ctx, row: SessionRow, usedAt: number) {
  if (usedAt <= row.usedAt) return;
  const stillReady = and(eq(table.id, row.id), eq(table.status, "ready"));
  write(ctx.db, (tx) => tx.update(table).set({ usedAt }).where(stillReady).run());
}

/** Removes directories without a row, and once after the start uploads that the previous server did not finish. */
async function sweep(ctx: Ctx, rows: readonly SessionRow[]) {
  const state = ctx.state.sessions;
  const now = ctx.clock.now();
  if (now - state.sweptAt < SWEEP_MS) return;
  state.sweptAt = now;
  for (const name of await namesIn(sessionsDir(ctx))) if (!sessions.find(ctx, name)) await removeTree(dirOf(ctx, name));
  if (state.hasSwept) return;
  state.hasSwept = true;
  const oldest = Date.now() - performance.timeOrigin; // File times come from the machine, not from ctx.clock.
  for (const { id, status } of rows) if (status === "ready") await cleanIncoming(dirOf(ctx, id), oldest);
}
