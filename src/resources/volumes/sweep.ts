/** The loop `volumes.sweep`: what a kill, an expiry or a deletion left to do. All of it is read from the rows. */
import { asc, eq, isNotNull } from "drizzle-orm";
import type { Ctx } from "../../context.ts";
import { AppError } from "../../lib/errors.ts";
import { oncePer } from "../../lib/once_per.ts";
import { gradually } from "../../platform/db/gradually.ts";
import * as looseKeys from "../loose_keys/service.ts";
import * as uploads from "../uploads/service.ts";
import * as volumes from "./service.ts";
import { volumes as table, volumeFiles } from "./table.ts";
import { complete, mayBeCompleted } from "./upload.ts";

const YOUNG_MS = 600_000;
const LOOK_MS = 30_000;
const lookedOf = oncePer((_db: Ctx["db"]) => ({ at: 0 }));

export async function sweep(ctx: Ctx, signal?: AbortSignal) {
  uploads.free(ctx);
  await collect(ctx, signal);
  await uploads.sweep(ctx);
  const gone = ctx.db.select({ id: table.id }).from(table).where(isNotNull(table.deletedAt)).all();
  for (const { id } of gone) await empty(ctx, id);
  await looseKeys.sweep(ctx, { signal, spare: (key) => mayBeCompleted(ctx, key) });
}

/**
 * Files that were sent into the storage and of which nobody told us. Looked for while the upload is young, and once
 * more before it is given up.
 */
async function collect(ctx: Ctx, signal: AbortSignal | undefined) {
  const now = ctx.clock.now();
  const looked = lookedOf(ctx.db);
  if (now - looked.at < LOOK_MS) return; // the loop is woken by every file
  looked.at = now;
  for (const { id, targetId, createdAt, expiresAt } of uploads.staged(ctx)) {
    const due = now - createdAt < YOUNG_MS || now >= expiresAt + uploads.LATE_MS;
    const volume = due ? volumes.findAny(ctx, targetId) : undefined;
    if (!volume || signal?.aborted) continue;
    await complete(ctx, volume, id).catch((error) => {
      if (error instanceof AppError && error.status < 500) return; // not there yet, not what it should be, or taken
      ctx.log.error("an upload could not be looked for", { upload: id, error });
    });
  }
}

/** The files of a deleted volume, then its row. */
async function empty(ctx: Ctx, id: string) {
  const now = ctx.clock.now();
  await gradually(ctx.db, (tx, rows) => {
    const bite = tx
      .select({ path: volumeFiles.path, key: volumeFiles.storageKey })
      .from(volumeFiles)
      .where(eq(volumeFiles.volumeId, id))
      .orderBy(asc(volumeFiles.path))
      .limit(rows)
      .all();
    for (const { key } of bite) {
      looseKeys.drop(tx, key, now);
      tx.delete(volumeFiles).where(eq(volumeFiles.storageKey, key)).run();
    }
    if (bite.length < rows) tx.delete(table).where(eq(table.id, id)).run();
    return bite.length;
  });
}
