/** The loop `experiments.sweep`: deletes the results of deleted experiments, and pins that a kill left behind. */
import { and, eq, gt, inArray, min, sql } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { takingTurns } from "../../../../lib/turns.ts";
import { gradually } from "../../../../platform/db/gradually.ts";
import * as snapshots from "../../../data/datasets/stream/snapshots.ts";
import { current } from "../service.ts";
import { experimentItems, experimentScores } from "../table.ts";

export async function sweep(ctx: Ctx) {
  await snapshots.unpinLost(ctx, "exp", (id) => {
    const row = current(ctx, id);
    return ctx.state.experiments.admitting.has(id) || (row !== undefined && row.finishedAt === null);
  });
  for await (const lost of lostIds(ctx, experimentItems))
    await gradually(ctx.db, (tx, rows) => {
      const { id, experimentId } = experimentItems;
      const some = tx.select({ id }).from(experimentItems).where(eq(experimentId, lost)).limit(rows);
      return tx.delete(experimentItems).where(inArray(id, some)).returning({ id }).all().length;
    });
  for await (const lost of lostIds(ctx, experimentScores))
    await gradually(ctx.db, (tx, rows) => {
      const { experimentId, target, rowId, evaluator } = experimentScores;
      const key = { target, rowId, evaluator };
      const some = tx.select(key).from(experimentScores).where(eq(experimentId, lost)).limit(rows);
      const isLost = and(eq(experimentId, lost), sql`(${target}, ${rowId}, ${evaluator}) IN ${some}`);
      return tx.delete(experimentScores).where(isLost).returning({ rowId }).all().length;
    });
}

/** Experiments that have results and no row. It seeks from one id to the next, so it reads no results. */
async function* lostIds(
  ctx: Ctx,
  { experimentId }: typeof experimentItems | typeof experimentScores,
): AsyncGenerator<string> {
  const turn = takingTurns();
  for (let last = ""; ; ) {
    await turn();
    const next = ctx.db
      .select({ id: min(experimentId) })
      .from(experimentId.table)
      .where(gt(experimentId, last))
      .get()?.id;
    if (next == null) return;
    last = next;
    if (!current(ctx, next)) yield next;
  }
}
