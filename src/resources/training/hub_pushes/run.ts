/** The loop `hub_pushes.run`: asks for the pushes of completed jobs, and works through the open ones, a few at a time. */
import { and, eq, inArray, isNull, sql } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";
import { SECOND_MS } from "../../../lib/units.ts";
import { prepared, write } from "../../../platform/db/db.ts";
import { oldestOfEach } from "../../../platform/db/oldest_of_each.ts";
import { StorageError } from "../../../platform/files.ts";
import { HubError } from "../../serving/models/hub/hub.ts";
import { trainingJobs } from "../training_jobs/table.ts";
import { isDue, pauseAfter } from "./policy.ts";
import { pushOnce } from "./push.ts";
import * as rows from "./rows.ts";
import { addForJob } from "./service.ts";
import { removeSpool, sweepSpool } from "./spool.ts";
import { hubPushes, type PushRow } from "./table.ts";

const MOST_ASKED = 16; // jobs in one round
const MOST_SEEN = 16; // pushes of a workspace: some of them wait for their next try
const WAIT_MS = 2 * SECOND_MS; // for an export that is being made

const open = oldestOfEach(hubPushes, inArray(hubPushes.status, ["preparing", "pushing"]));

export async function run(ctx: Ctx): Promise<void> {
  if (ctx.closing.aborted) return;
  const live = ctx.state.hubPushes;
  askForJobs(ctx);
  if (!live.isSwept) {
    await sweepSpool(ctx, (id) => rows.current(ctx.db, id)?.completedAt === null);
    live.isSwept = true;
  }
  for (const [id, { stop }] of live.running) if (rows.current(ctx.db, id)?.completedAt !== null) stop.abort();
  const now = ctx.clock.now();
  const due = open(ctx.db)
    .all({ most: MOST_SEEN })
    .filter(({ id, notBefore }) => !live.running.has(id) && isDue(notBefore, now));
  live.permits.fillFrom(due, (row, release) => {
    const stop = new AbortController();
    const over = attempt(ctx, row, AbortSignal.any([ctx.closing, stop.signal])).finally(() => {
      live.running.delete(row.id);
      release();
      ctx.wake("hub_pushes.run");
    });
    live.running.set(row.id, { over, stop });
  });
}

const unaskedJobs = prepared((db) => {
  const { completedAt, hubRepo, hubAskedAt } = trainingJobs;
  return db
    .select()
    .from(trainingJobs)
    .where(and(sql`${hubRepo} IS NOT NULL AND ${completedAt} IS NOT NULL`, isNull(hubAskedAt)))
    .limit(MOST_ASKED)
    .prepare();
});

/** A job that has completed gets its push in one commit with the note that it was asked for. */
function askForJobs(ctx: Ctx) {
  const { hubAskedAt, status } = trainingJobs;
  for (const job of unaskedJobs(ctx.db).all())
    write(ctx.db, (tx) => {
      const now = ctx.clock.now();
      tx.update(trainingJobs)
        .set({ hubAskedAt: now })
        .where(and(eq(trainingJobs.id, job.id), isNull(hubAskedAt), sql`${status} = ${job.status}`))
        .run();
      if (job.status === "completed") addForJob(ctx, tx, job);
    });
}

async function attempt(ctx: Ctx, row: PushRow, signal: AbortSignal): Promise<void> {
  try {
    if (!(await pushOnce(ctx, row, signal))) return rows.postpone(ctx, row.id, WAIT_MS, null);
  } catch (error) {
    if (signal.aborted) return; // the next server goes on, or the push was cancelled
    giveUpOrRetry(ctx, row, error);
  } finally {
    if (rows.current(ctx.db, row.id)?.completedAt !== null) await removeSpool(ctx, row.id);
  }
}

function giveUpOrRetry(ctx: Ctx, { id }: PushRow, error: unknown) {
  const isStorage =
    error instanceof StorageError || (error instanceof AppError && error.code === "storage_unavailable");
  const isExpected = isStorage || error instanceof HubError || error instanceof AppError;
  if (!isExpected) ctx.log.error("a push to the hub failed", { push: id, error });
  const message = isExpected
    ? error instanceof StorageError
      ? error.advice
      : (error as Error).message
    : "The push failed: see the server's log";
  const attempts = rows.current(ctx.db, id)?.attempts ?? 0;
  const isPassing = isStorage || !isExpected || (error instanceof HubError && error.passing);
  const pause = pauseAfter({ attempts, isPassing });
  if (pause === undefined) rows.fail(ctx, id, message);
  else {
    ctx.log.warn("a push to the hub was interrupted", { push: id, attempts, error: message });
    rows.postpone(ctx, id, pause, message);
  }
}
