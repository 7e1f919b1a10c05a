/** Removes vector stores and their files in small commits: those that are marked, and their chunks first. */
import { and, eq, inArray, isNotNull, isNull, or, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { DAY_MS } from "../../../lib/units.ts";
import { write } from "../../../platform/db/db.ts";
import { gradually } from "../../../platform/db/gradually.ts";
import { vectorChunks, vectorFiles, vectorStores } from "./table.ts";

/** Stores that expired stay visible for a while, without their chunks. */
const SHOWN_EXPIRED_DAYS = 30;

const usedDaysAgo = (now: number, days: number) =>
  sql`${vectorStores.expiresDays} IS NOT NULL AND ${vectorStores.usedAt} + (${vectorStores.expiresDays} + ${days}) * ${DAY_MS} <= ${now}`;

export async function prune(ctx: Ctx) {
  const removedAt = ctx.clock.now();
  const isOld = and(isNull(vectorStores.removedAt), usedDaysAgo(removedAt, SHOWN_EXPIRED_DAYS));
  write(ctx.db, (tx) => void tx.update(vectorStores).set({ removedAt }).where(isOld).run());
  await sweep(ctx);
}

async function sweep(ctx: Ctx) {
  const removedAt = ctx.clock.now();
  await gradually(ctx.db, (tx, rows) => {
    const { id } = vectorFiles;
    const over = tx
      .select({ id: vectorStores.id })
      .from(vectorStores)
      .where(or(isNotNull(vectorStores.removedAt), usedDaysAgo(removedAt, 0)));
    const some = tx
      .select({ id })
      .from(vectorFiles)
      .where(and(isNull(vectorFiles.removedAt), inArray(vectorFiles.storeId, over)))
      .limit(rows);
    const marked = tx.update(vectorFiles).set({ removedAt }).where(inArray(id, some)).returning({ id }).all();
    for (const file of marked) ctx.state.vectorStores.running.get(file.id)?.stop.abort();
    return marked.length;
  });
  const removedFiles = () =>
    ctx.db.select({ id: vectorFiles.id }).from(vectorFiles).where(isNotNull(vectorFiles.removedAt));
  await gradually(ctx.db, (tx, rows) => {
    const { id } = vectorChunks;
    const some = tx
      .select({ id })
      .from(vectorChunks)
      .where(inArray(vectorChunks.vectorFileId, removedFiles()))
      .limit(rows);
    return tx.delete(vectorChunks).where(inArray(id, some)).returning({ id }).all().length;
  });
  await gradually(ctx.db, (tx, rows) => {
    const { id } = vectorFiles;
    const hasChunks = sql`EXISTS (SELECT 1 FROM ${vectorChunks} WHERE ${vectorChunks.vectorFileId} = ${id})`;
    const some = tx
      .select({ id })
      .from(vectorFiles)
      .where(and(isNotNull(vectorFiles.removedAt), sql`NOT ${hasChunks}`))
      .limit(rows);
    return tx.delete(vectorFiles).where(inArray(id, some)).returning({ id }).all().length;
  });
  await gradually(ctx.db, (tx, rows) => {
    const { id } = vectorStores;
    const hasFiles = sql`EXISTS (SELECT 1 FROM ${vectorFiles} WHERE ${vectorFiles.storeId} = ${id})`;
    const some = tx
      .select({ id })
      .from(vectorStores)
      .where(and(isNotNull(vectorStores.removedAt), sql`NOT ${hasFiles}`))
      .limit(rows);
    return tx.delete(vectorStores).where(inArray(id, some)).returning({ id }).all().length;
  });
}

/** For a workspace that is deleted. */
export async function removeAll(ctx: Ctx, workspaceId: string) {
  const removedAt = ctx.clock.now();
  const isOwn = eq(vectorStores.workspaceId, workspaceId);
  write(ctx.db, (tx) => void tx.update(vectorStores).set({ removedAt }).where(isOwn).run());
  await sweep(ctx);
}
