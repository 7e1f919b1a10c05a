/**
 * Brings what runs in line with the rows: starts what should run, ends what should not, and tidies up after what has
 * ended. Everything is decided from the rows, the files and the living processes, so that a lost wake-up costs a second.
 */
import { and, desc, inArray, isNotNull, isNull } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { runTime } from "../../billing/run_time.ts";
import { costOf } from "../../billing/service.ts";
import * as gpu from "../../gpu/service.ts";
import { exportDue } from "../artifacts/exports.ts";
import { storeLog } from "../logs/reading.ts";
import { overdrawn, UNTOLD } from "../policy.ts";
import * as jobs from "../service.ts";
import { keepToCredit } from "../state/credit.ts";
import { isAtWork, liveOf, type Run } from "../state/live.ts";
import * as moves from "../state/moves.ts";
import { MOST_TRIED, queuedJobs } from "../state/queue.ts";
import { inOrder } from "../state/queue_order.ts";
import { type JobRow, trainingJobs } from "../table.ts";
import { launch, leaveQueue } from "./launch.ts";

const SAVE_MS = 900_000; // a step and a checkpoint; who takes longer is ended

/** Once, at the start, after the ledger was emptied: nothing runs yet, whatever the rows say. */
export function begin(ctx: Ctx) {
  moves.interrupted(ctx);
  gpu.registerKind(ctx, "training_job", { idle: () => [], evict: async () => {} });
  gpu.onFreed(ctx, () => ctx.wake("training_jobs.reconcile"));
}

/** The server stops: what runs saves and ends while there is time. Rows stay as they are; the next server goes on. */
export async function close(ctx: Ctx, signal: AbortSignal): Promise<void> {
  const { runs } = liveOf(ctx.db);
  for (const run of runs.values()) run.save();
  const over = Promise.withResolvers<void>();
  signal.addEventListener("abort", () => over.resolve(), { once: true });
  await Promise.race([over.promise, Promise.all([...runs.values()].map((run) => run.over))]);
}

export async function reconcile(ctx: Ctx): Promise<void> {
  if (ctx.closing.aborted) return;
  const live = liveOf(ctx.db);
  keepToCredit(ctx);
  const rows = atWork(ctx);
  for (const row of rows) guarded(ctx, "a job could not be driven", row.id, () => drive(ctx, row)); // its siblings go on
  const driven = new Set(rows.map(({ id }) => id));
  for (const run of [...live.runs.values()]) {
    if (driven.has(run.jobId)) continue;
    const row = jobs.current(ctx, run.jobId); // paused, or queued again while its former run ends
    if (!row || row.completedAt !== null) end(ctx, run, "the job is over");
    else guarded(ctx, "a job could not be driven", row.id, () => drive(ctx, row));
  }
  for (const id of [...live.queued]) if (jobs.current(ctx, id)?.status !== "queued") leaveQueue(ctx, id);
  live.filling ??= fill(ctx).finally(() => {
    live.filling = undefined;
  });
  await Promise.race([live.filling, new Promise(setImmediate)]); // what can begin at once begins in this tick
  tidy(ctx);
  exportDue(ctx);
}

/** Jobs whose status says that they have a process. Queued and paused jobs, which may be many, are not read. */
const atWork = (ctx: Ctx): JobRow[] =>
  ctx.db
    .select()
    .from(trainingJobs)
    .where(
      and(isNull(trainingJobs.completedAt), inArray(trainingJobs.status, ["provisioning", "running", "cancelling"])),
    )
    .all();

function guarded(ctx: Ctx, what: string, job: string, work: () => unknown) {
  const broken = (error: unknown) => ctx.log.error(what, { job, error });
  try {
    const result = work();
    if (result instanceof Promise) result.catch(broken);
  } catch (error) {
    broken(error);
  }
}

function drive(ctx: Ctx, row: JobRow) {
  const run = liveOf(ctx.db).runs.get(row.id);
  const isMeant = row.status === "provisioning" || row.status === "running";
  if (!run) {
    if (isAtWork(ctx, row.id)) return;
    if (row.status === "cancelling") moves.drop(ctx, row.id);
    else if (isMeant) moves.conclude(ctx, row.id, LOST);
    return;
  }
  moves.seen(ctx, row);
  if (row.status === "cancelling") return end(ctx, run, "cancelled");
  if (!isMeant) return saved(ctx, run);
  const now = runTime(ctx, row.id);
  const live = row.runSince === null ? 0 : costOf(row.rateMicros, now - row.runSince);
  const most = { runtimeMs: ctx.config.training.max_runtime_minutes * 60_000, live, now };
  const error = overdrawn(row, most);
  if (error && moves.fail(ctx, row.id, error)) end(ctx, run, error.message);
}

/** Its start was cut off by an error of ours. */
const LOST = { ...UNTOLD, message: "It could not be started" };

function end(ctx: Ctx, run: Run, reason: string) {
  run.endingAt ??= ctx.clock.now();
  guarded(ctx, "a run could not be ended", run.jobId, () => run.stop(reason));
}

function saved(ctx: Ctx, run: Run) {
  if (run.endingAt === undefined) {
    run.endingAt = ctx.clock.now();
    run.save();
  } else if (ctx.clock.now() - run.endingAt > SAVE_MS) end(ctx, run, "it did not save in time");
}

/** Starts the next jobs one after the other while there is room. Reads the queue only if a job can start. */
async function fill(ctx: Ctx) {
  const { runs } = liveOf(ctx.db);
  const { parallel } = ctx.config.training;
  if (runs.size >= parallel) return;
  const waiting = queuedJobs(ctx.db).filter(({ id }) => !isAtWork(ctx, id)); // a resumed job waits for its former run
  const running = [...runs.values()].map(({ workspaceId }) => workspaceId);
  let tried = 0;
  for (const { id } of inOrder(waiting, running, ctx.clock.now())) {
    if (ctx.closing.aborted || runs.size >= parallel || tried++ >= MOST_TRIED) return;
    try {
      const job = jobs.current(ctx, id);
      if (job?.status === "queued") await launch(ctx, job);
    } catch (error) {
      ctx.log.error("a job could not be started", { job: id, error }); // drive() counts it
    }
  }
}

const MOST_STORED = 16; // logs, in one round

/** Logs of those that have ended. */
function tidy(ctx: Ctx) {
  const ended = and(isNotNull(trainingJobs.completedAt), isNull(trainingJobs.logKey));
  const newest = desc(trainingJobs.completedAt); // one that cannot be stored does not hold up those to come
  const due = ctx.db.select().from(trainingJobs).where(ended).orderBy(newest).limit(MOST_STORED).all();
  for (const job of due) guarded(ctx, "a log could not be stored", job.id, () => storeLog(ctx, job));
}
