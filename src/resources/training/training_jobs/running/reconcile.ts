/**
 * Makes the running processes match the rows: starts queued jobs, stops runs that should not go on, stores the logs of
 * finished jobs. All decisions are made from rows, files and processes, so a lost wake-up costs only a second.
 */
import { and, desc, inArray, isNotNull, isNull } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { MINUTE_MS } from "../../../../lib/units.ts";
import { prepared } from "../../../../platform/db/db.ts";
import { waitForMachine } from "../../../machines/clouds/service.ts";
import * as gpu from "../../../machines/gpu/service.ts";
import { find as findRegion, mostJobs } from "../../../machines/regions/service.ts";
import { startNextExports } from "../artifacts/exports.ts";
import { storeLog } from "../logs/reading.ts";
import { UNREPORTED_END } from "../policy.ts";
import { busyWith, openRunOf } from "../remote_runs.ts";
import { enforceCredit } from "../state/credit.ts";
import type { Run } from "../state/live.ts";
import * as moves from "../state/moves.ts";
import { heldBack, LOCAL, MOST_TRIED, queuedJobs, remoteJobs } from "../state/queue.ts";
import { inOrder } from "../state/queue_order.ts";
import { currentJob } from "../state/rows.ts";
import { type JobRow, trainingJobs } from "../table.ts";
import { launch, releaseMemory } from "./launch.ts";

const SAVE_MS = 15 * MINUTE_MS; // enough for a step and a checkpoint; a slower run is stopped

/** Call it once, at the start, after the GPU ledger was cleared: nothing runs yet, whatever the rows say. */
export function begin(ctx: Ctx) {
  moves.requeueInterrupted(ctx);
  gpu.registerKind(ctx, "training_job", { idle: () => [], evict: async () => {} });
  gpu.onFreed(ctx, () => ctx.wake("training_jobs.reconcile"));
}

/** Lets all runs save and end until `signal` aborts. Rows keep their status; the next server resumes the jobs. */
export async function close(ctx: Ctx, signal: AbortSignal): Promise<void> {
  const runs = ctx.state.trainingJobs.runs();
  for (const run of runs) run.save();
  const late = Promise.withResolvers<void>();
  signal.addEventListener("abort", () => late.resolve(), { once: true });
  const synced = [...ctx.state.trainingJobs.syncing.values()]; // runs on other machines go on without this server
  const readings = ctx.state.trainingJobs.readings().map(([, reading]) => reading.over);
  await Promise.race([late.promise, Promise.all([...runs.map((run) => run.over), ...readings, ...synced])]);
}

export async function reconcile(ctx: Ctx): Promise<void> {
  if (ctx.closing.aborted) return;
  const live = ctx.state.trainingJobs;
  enforceCredit(ctx);
  const rows = activeRows(ctx.db).all();
  for (const row of rows) guarded(ctx, "cannot reconcile a job", row.id, () => reconcileJob(ctx, row));
  const done = new Set(rows.map(({ id }) => id));
  for (const run of live.runs()) {
    if (done.has(run.jobId)) continue;
    const row = currentJob(ctx.db, run.jobId); // paused, or queued again while its former run ends
    if (!row || row.completedAt !== null) stopRun(ctx, run, "the job has ended");
    else guarded(ctx, "cannot reconcile a job", row.id, () => reconcileJob(ctx, row));
  }
  for (const id of live.jobsAwaitingMemory()) if (currentJob(ctx.db, id)?.status !== "queued") releaseMemory(ctx, id);
  const filling = live.fillOnce(() => startQueued(ctx));
  startRemote(ctx);
  await Promise.race([filling, new Promise(setImmediate)]); // a job that can start at once starts in this tick
  storeLogs(ctx);
  startNextExports(ctx);
}

/** Jobs whose status says that they have a process. Queued and paused jobs, which may be many, are not read. */
const activeRows = prepared((db) =>
  db
    .select()
    .from(trainingJobs)
    .where(
      and(isNull(trainingJobs.completedAt), inArray(trainingJobs.status, ["provisioning", "running", "cancelling"])),
    )
    .prepare(),
);

/** An error of one job is logged and does not stop the others. */
function guarded(ctx: Ctx, message: string, job: string, work: () => unknown) {
  const logError = (error: unknown) => ctx.log.error(message, { job, error });
  try {
    const result = work();
    if (result instanceof Promise) result.catch(logError);
  } catch (error) {
    logError(error);
  }
}

function reconcileJob(ctx: Ctx, row: JobRow) {
  const live = ctx.state.trainingJobs;
  const run = live.run(row.id);
  const shouldRun = row.status === "provisioning" || row.status === "running";
  if (!run) {
    if (live.isActive(row.id) || openRunOf(ctx.db, row.id)) return; // the loop `training_jobs.remote` follows that one
    if (row.status === "cancelling") moves.finishCancel(ctx, row.id);
    else if (shouldRun) moves.conclude(ctx, row.id, FAILED_START);
    return;
  }
  moves.recordActivity(ctx, row);
  if (row.status === "cancelling") return stopRun(ctx, run, "cancelled");
  if (!shouldRun) return saveRun(ctx, run);
  const error = moves.exceeded(ctx, row);
  if (error && moves.fail(ctx, row.id, error)) stopRun(ctx, run, error.message);
}

/** An error of the server interrupted the start. */
const FAILED_START = { ...UNREPORTED_END, message: "The run could not be started" };

function stopRun(ctx: Ctx, run: Run, reason: string) {
  run.endingAt ??= ctx.clock.now();
  guarded(ctx, "cannot stop a run", run.jobId, () => run.stop(reason));
}

function saveRun(ctx: Ctx, run: Run) {
  if (run.endingAt === undefined) {
    run.endingAt = ctx.clock.now();
    run.save();
  } else if (ctx.clock.now() - run.endingAt > SAVE_MS) stopRun(ctx, run, "saving took too long");
}

/** Starts the next jobs one after the other while there is room. Reads the queue only if a job can start. */
async function startQueued(ctx: Ctx) {
  const live = ctx.state.trainingJobs;
  const { parallel } = ctx.config.training;
  if (live.runCount >= parallel) return;
  // A resumed job waits for its former run.
  const queue = queuedJobs(ctx.db).filter(({ id, region }) => region === LOCAL && !live.isActive(id));
  const closed = new Set([...new Set(queue.map(({ workspaceId }) => workspaceId))].filter((id) => heldBack(ctx, id)));
  const waiting = queue.filter(({ workspaceId }) => !closed.has(workspaceId));
  const running = live.runs().map(({ workspaceId }) => workspaceId);
  let tried = 0;
  for (const { id } of inOrder(waiting, { running, lastStarts: live.lastStarts }, ctx.clock.now())) {
    if (ctx.closing.aborted || live.runCount >= parallel || tried++ >= MOST_TRIED) return;
    try {
      const job = currentJob(ctx.db, id);
      if (job?.status === "queued" && !heldBack(ctx, job.workspaceId)) await launch(ctx, job);
    } catch (error) {
      ctx.log.error("cannot start a job", { job: id, error }); // reconcileJob() counts it as a crash
    }
  }
}

/** Starts the next job of each other region that is free. Such a run takes no place of this machine, and is not awaited. */
function startRemote(ctx: Ctx) {
  const live = ctx.state.trainingJobs;
  const starting = new Map<string, number>(); // by region
  const startingIn = new Map<string, number>(); // by workspace
  const add = (region: string) => void starting.set(region, (starting.get(region) ?? 0) + 1);
  for (const { id, region } of inOrder(remoteJobs(ctx.db), { running: [] }, ctx.clock.now())) {
    const job = live.isActive(id) || openRunOf(ctx.db, id) ? undefined : currentJob(ctx.db, id);
    if (live.isActive(id)) add(region);
    if (job?.status !== "queued") continue;
    const busy = busyWith(ctx.db, region);
    if (busy.length + (starting.get(region) ?? 0) >= mostJobs(ctx, job.workspaceId, region)) {
      moves.setQueueReason(ctx, job, `waits for ${region}, which runs ${busy[0] ?? "another job"}`);
      continue;
    }
    const held = heldBack(ctx, job.workspaceId, startingIn.get(job.workspaceId));
    if (held !== undefined) {
      moves.setQueueReason(ctx, job, held);
      continue;
    }
    const place = findRegion(ctx, job.workspaceId, region);
    const waits = place && waitForMachine(ctx, place, job.apiKeyId);
    if (waits !== undefined) {
      moves.setQueueReason(ctx, job, waits);
      continue;
    }
    add(region);
    startingIn.set(job.workspaceId, (startingIn.get(job.workspaceId) ?? 0) + 1);
    guarded(ctx, "cannot start a job in another region", id, () => launch(ctx, job));
  }
}

const MOST_STORED = 16; // logs in one round

const unstoredLogs = prepared((db) => {
  const { completedAt, logKey, logBytes } = trainingJobs;
  const unstored = and(isNotNull(completedAt), isNull(logKey), isNull(logBytes));
  const newest = desc(completedAt); // a log that cannot be stored must not hold up newer ones
  return db.select().from(trainingJobs).where(unstored).orderBy(newest).limit(MOST_STORED).prepare();
});

function storeLogs(ctx: Ctx) {
  for (const job of unstoredLogs(ctx.db).all()) guarded(ctx, "cannot store a log", job.id, () => storeLog(ctx, job));
}
