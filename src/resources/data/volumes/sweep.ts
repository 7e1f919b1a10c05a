/** The loop `volumes.sweep`: finishes what a kill, an expiry or a deletion left behind. It reads all work from the rows. */
import { asc, eq, inArray, isNotNull } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";
import { MINUTE_MS, SECOND_MS } from "../../../lib/units.ts";
import { gradually } from "../../../platform/db/gradually.ts";
import * as looseKeys from "../loose_keys/service.ts";
import * as uploads from "../uploads/service.ts";
import * as volumes from "./service.ts";
import { volumes as table, volumeFiles } from "./table.ts";
import { complete, mayBeCompleted } from "./upload.ts";

const YOUNG_MS = 10 * MINUTE_MS;
const SEARCH_MS = 30 * SECOND_MS;

export async function sweep(ctx: Ctx, signal?: AbortSignal) {
  uploads.free(ctx);
  await collect(ctx, signal);
  await uploads.sweep(ctx);
  const deleted = ctx.db.select({ id: table.id }).from(table).where(isNotNull(table.deletedAt)).all();
  for (const { id } of deleted) await empty(ctx, id);
  await looseKeys.sweep(ctx, { signal, spare: (key) => mayBeCompleted(ctx, key) });
}

/**
 * Completes uploads whose client sent the file to the storage, but never called `complete`. Searches the storage while
 * the upload is young, and once more before it expires.
 */
async function collect(ctx: Ctx, signal: AbortSignal | undefined) {
  const now = ctx.clock.now();
  const state = ctx.state.volumes;
  if (now - state.searchedAt < SEARCH_MS) return; // Every stored file wakes the loop.
  state.searchedAt = now;
  for (const { id, targetId, createdAt, expiresAt } of uploads.staged(ctx)) {
    const due = now - createdAt < YOUNG_MS || now >= expiresAt + uploads.LATE_MS;
    const volume = due ? volumes.findAny(ctx, targetId) : undefined;
    if (!volume || signal?.aborted) continue;
    await complete(ctx, volume, id).catch((error) => {
      if (error instanceof AppError && error.status < 500) return; // The file has not arrived, is wrong, or was taken.
      ctx.log.error("searching the storage for an upload failed", { upload: id, error });
    });
  }
}

/** Removes the files of a deleted volume, then its row. */
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
    const keys = bite.map(({ key }) => key);
    looseKeys.dropAll(tx, keys, now);
    tx.delete(volumeFiles).where(inArray(volumeFiles.storageKey, keys)).run();
    if (bite.length < rows) tx.delete(table).where(eq(table.id, id)).run();
    return bite.length;
  });
}
