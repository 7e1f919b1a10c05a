import { eq, sql } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { prepared, type Tx, write } from "../../../../platform/db/db.ts";
import { note } from "../state/notes.ts";
import { mustGet } from "../state/rows.ts";
import { type JobRow, trainingJobs } from "../table.ts";

const at = prepared((db) =>
  db
    .select({ id: trainingJobs.id })
    .from(trainingJobs)
    .where(eq(trainingJobs.publishedAt, sql.placeholder("at")))
    .prepare(),
);

/** The first free millisecond from now on. Times are unique, so a page that starts at a time skips no job. */
export function publishingTime(tx: Tx, now: number): number {
  let time = now;
  while (at(tx).get({ at: time })) time++;
  return time;
}

/** Anyone can see a published job, without a key. */
export function setPublished(ctx: Ctx, workspaceId: string, id: string, publish: boolean): JobRow {
  const before = mustGet(ctx, workspaceId, id);
  if (before.publish === publish) return before;
  const now = ctx.clock.now();
  return write(ctx.db, (tx) => {
    const set = { publish, publishedAt: publish ? publishingTime(tx, now) : null, updatedAt: now };
    const row = tx.update(trainingJobs).set(set).where(eq(trainingJobs.id, id)).returning().get();
    const type = publish ? "job.published" : "job.unpublished";
    note(tx, row, now, { level: "info", type, message: publish ? "Published" : "No longer published" });
    return row;
  });
}
