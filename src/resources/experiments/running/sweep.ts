/** The loop `experiments.sweep`: deletes the results of deleted experiments, and pins that a kill left behind. */
import { notExists, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { gradually } from "../../../platform/db/gradually.ts";
import * as snapshots from "../../datasets/stream/snapshots.ts";
import { current } from "../service.ts";
import { experimentItems, experimentScores, experiments } from "../table.ts";

export async function sweep(ctx: Ctx) {
  snapshots.unpinLost(ctx, "exp", (id) => {
    const row = current(ctx, id);
    return ctx.state.experiments.admitting.has(id) || (row !== undefined && row.finishedAt === null);
  });
  await gradually(ctx.db, (tx, rows) => {
    const { id, experimentId } = experimentItems;
    const lost = notExists(
      tx.select({ one: sql`1` }).from(experiments).where(sql`${experiments.id} = ${experimentId}`),
    );
    const some = tx.select({ id }).from(experimentItems).where(lost).limit(rows);
    return tx.delete(experimentItems).where(sql`${id} IN ${some}`).returning({ id }).all().length;
  });
  await gradually(ctx.db, (tx, rows) => {
    const { experimentId, target, rowId, evaluator } = experimentScores;
    const lost = notExists(
      tx.select({ one: sql`1` }).from(experiments).where(sql`${experiments.id} = ${experimentId}`),
    );
    const key = { experimentId, target, rowId, evaluator };
    const some = tx.select(key).from(experimentScores).where(lost).limit(rows);
    const own = sql`(${experimentId}, ${target}, ${rowId}, ${evaluator}) IN ${some}`;
    return tx.delete(experimentScores).where(own).returning({ rowId }).all().length;
  });
}
