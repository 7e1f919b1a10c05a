/** The loop `volumes.sweep`: what a kill, an expiry or a deletion left to do. All of it is read from the rows. */
import { asc, eq, isNotNull } from "drizzle-orm";
import type { Ctx } from "../../context.ts";
import { gradually } from "../../platform/gradually.ts";
import * as looseKeys from "../loose_keys/service.ts";
import * as uploads from "../uploads/service.ts";
import { volumeFiles, volumes } from "./table.ts";

export async function sweep(ctx: Ctx, signal?: AbortSignal) {
  await uploads.sweep(ctx);
  const gone = ctx.db.select({ id: volumes.id }).from(volumes).where(isNotNull(volumes.deletedAt)).all();
  for (const { id } of gone) await empty(ctx, id);
  await looseKeys.sweep(ctx, signal);
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
    if (bite.length < rows) tx.delete(volumes).where(eq(volumes.id, id)).run();
    return bite.length;
  });
}
