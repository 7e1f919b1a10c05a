import { and, count, isNull, sum } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import type { Counts } from "./schema.ts";
import { vectorFiles } from "./table.ts";

/** Counts of the files with each status, and the bytes of their chunks. */
export function countsOf(ctx: Pick<Ctx, "db">, where: ReturnType<typeof and>): { counts: Counts; bytes: number } {
  const groups = ctx.db
    .select({ status: vectorFiles.status, number: count(), bytes: sum(vectorFiles.usageBytes).mapWith(Number) })
    .from(vectorFiles)
    .where(and(where, isNull(vectorFiles.removedAt)))
    .groupBy(vectorFiles.status)
    .all();
  const counts: Counts = { in_progress: 0, completed: 0, failed: 0, cancelled: 0, total: 0 };
  let bytes = 0;
  for (const group of groups) {
    counts[group.status] = group.number;
    counts.total += group.number;
    bytes += group.bytes;
  }
  return { counts, bytes };
}
