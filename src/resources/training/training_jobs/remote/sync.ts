/**
 * The loop `training_jobs.remote`: sends plans to nodes, asks what became of them and pulls what the runs report. All
 * decisions are made from rows and the files of the node, so a lost connection or a killed server only delays them.
 */
import type { Ctx } from "../../../../context.ts";
import type { JobStatus } from "../../../../lib/training/job_status.ts";
import { write } from "../../../../platform/db/db.ts";
import type { Observation } from "../../../../platform/providers/protocol.ts";
import { removeStaging } from "../../../../platform/providers/staging.ts";
import { NodeError, type Provider, Unreachable } from "../../../../platform/providers/types.ts";
import { isGone } from "../../../machines/clouds/service.ts";
import { providerOf } from "../../../machines/regions/provider.ts";
import { find as findRegion } from "../../../machines/regions/service.ts";
import type { RegionRow } from "../../../machines/regions/table.ts";
import { UNREPORTED_END } from "../policy.ts";
import { changeRun, openRunOf, openRuns, type RemoteRunRow } from "../remote_runs.ts";
import { startFault } from "../state/inputs.ts";
import * as moves from "../state/moves.ts";
import { currentJob } from "../state/rows.ts";
import type { JobRow } from "../table.ts";
import { concludeRun, handleOf, pullRecords } from "./records.ts";
import { submissionOf } from "./submission.ts";

/** Starts the work for each region that has open runs and is not being worked for. Returns at once. */
export function syncRemote(ctx: Ctx) {
  if (ctx.closing.aborted) return;
  const { syncing } = ctx.state.trainingJobs;
  const byRegion = Map.groupBy(openRuns(ctx.db), ({ region }) => region);
  for (const [region, runs] of byRegion) {
    if (syncing.has(region)) continue;
    const work = syncRegion(ctx, region, runs)
      .catch((error) => logFailure(ctx, region, error))
      .finally(() => syncing.delete(region));
    syncing.set(region, work);
  }
}

/** The loop `regions.observe` shows callers that a node does not answer. */
function logFailure(ctx: Ctx, region: string, error: unknown) {
  if (!(error instanceof Unreachable)) ctx.log.error("cannot follow the runs of a region", { region, error });
}

type Open = { run: RemoteRunRow; job: JobRow };

async function syncRegion(ctx: Ctx, id: string, runs: readonly RemoteRunRow[]) {
  const open = runs.flatMap((run): Open[] => {
    const job = currentJob(ctx.db, run.jobId);
    return job ? [{ run, job }] : [];
  });
  for (const each of open) enforceLimits(ctx, each.job);
  const region = open[0] && findRegion(ctx, open[0].job.workspaceId, id);
  if (!region) {
    for (const each of open) abandon(ctx, each);
    return;
  }
  if (isGone(region)) {
    for (const each of open) await concludeGone(ctx, region, each);
    return;
  }
  const provider = providerOf(ctx, region);
  const seen = await provider.observe(runs.map(handleOf));
  for (const [i, run] of runs.entries()) {
    const job = currentJob(ctx.db, run.jobId);
    const observation = seen[i];
    if (!job || !observation || ctx.closing.aborted) continue;
    await syncRun(ctx, { provider, region, run, job, observation });
  }
}

function enforceLimits(ctx: Ctx, job: JobRow) {
  if (job.status !== "provisioning" && job.status !== "running") return;
  moves.recordActivity(ctx, job);
  const error = moves.exceeded(ctx, job);
  if (error) moves.fail(ctx, job.id, error);
}

/** The region is gone with its address and its key: nothing can be asked or stopped there any more. */
function abandon(ctx: Ctx, { run, job }: Open) {
  const message = "The region of the job was deleted";
  write(ctx.db, (tx) => {
    moves.conclude(ctx, job.id, { ...UNREPORTED_END, kind: "config", message });
    changeRun(tx, run, { state: "closed" });
  });
}

/** The job goes on from the newest checkpoint that this server has, on the next machine. */
async function concludeGone(ctx: Ctx, { name }: RegionRow, { run, job }: Open) {
  if (run.state === "ended") return write(ctx.db, (tx) => changeRun(tx, run, { state: "closed" }));
  if (wish(job.status) !== "go on") return await endUnsent(ctx, run);
  const message = `The machine of ${name} on which the job ran is gone`;
  await concludeRun(ctx, run, { ...run.runEnd, kind: "crashed", killed: true, message });
  const next = openRunOf(ctx.db, job.id);
  if (next?.attempt === run.attempt) write(ctx.db, (tx) => changeRun(tx, next, { state: "closed" }));
}

type Following = Open & { provider: Provider; region: RegionRow; observation: Observation };

async function syncRun(ctx: Ctx, { provider, region, run, job, observation }: Following) {
  if (run.state === "ended") return await cleanUp(ctx, { provider, run, observation });
  if (run.state === "sending") return await send(ctx, { provider, region, run, job, observation });
  const wanted = wish(job.status);
  const isWaiting = observation.state === "ready"; // in the queue of a scheduler
  if (wanted !== "go on" && (isWaiting || observation.state === "running"))
    await provider.cancel(handleOf(run), wanted);
  if (isWaiting) {
    // Without a scheduler nothing else starts the supervisor, if the lock of the job was still held the first time.
    if (wanted === "go on" && region.slurm === null) await provider.start(handleOf(run));
    moves.restartClock(ctx, job.id);
  }
  if (isPullTooEarly(ctx, job.id)) return;
  const isOver = observation.state !== "running" && observation.state !== "ready";
  if (observation.bytes > run.offset || isOver) await pullRecords(ctx, { provider, region, run, observation });
}

function isPullTooEarly({ state, clock }: Ctx, id: string): boolean {
  const { pullsNotBefore } = state.trainingJobs;
  const at = pullsNotBefore.get(id) ?? Number.NEGATIVE_INFINITY;
  if (at <= clock.steady()) pullsNotBefore.delete(id);
  return at > clock.steady();
}

/** The files are copied in this turn, which may take long; other regions have turns of their own. */
async function send(ctx: Ctx, { provider, run, job, observation }: Following) {
  const handle = handleOf(run);
  try {
    if (wish(job.status) !== "go on") {
      await provider.cancel(handle, "stop"); // if it has the plan, it never starts then
      if (observation.state === "missing" || observation.state === "ready") return await endUnsent(ctx, run);
    } else if (observation.state === "missing") await provider.submit(await submissionOf(ctx, job, handle));
    else if (observation.state === "ready") await provider.start(handle);
    if (ctx.closing.aborted) return;
    write(ctx.db, (tx) => changeRun(tx, run, { state: "running" }));
    removeStaging(ctx.config.data_dir, job.id);
  } catch (error) {
    if (error instanceof Unreachable || ctx.closing.aborted) throw error;
    const fault = startFault(error);
    if (fault) return void giveUp(ctx, run, () => moves.fail(ctx, job.id, fault));
    if (!(error instanceof NodeError)) throw error;
    await forbidStart(provider, run);
    const message = `The run could not be started in ${run.region}: ${error.message}`;
    await concludeRun(ctx, run, { ...UNREPORTED_END, message });
  }
}

/** The failed command may have started the attempt after all. The next attempt must be the only one that runs. */
async function forbidStart(provider: Provider, run: RemoteRunRow) {
  try {
    await provider.cancel(handleOf(run), "stop");
  } catch (error) {
    if (!(error instanceof NodeError)) throw error; // the same command fails again, after the request was written
  }
}

const endUnsent = (ctx: Ctx, run: RemoteRunRow) =>
  concludeRun(ctx, run, { ...UNREPORTED_END, kind: "stopped", saved: true });

function giveUp(ctx: Ctx, run: RemoteRunRow, apply: () => unknown) {
  write(ctx.db, (tx) => {
    apply();
    changeRun(tx, run, { state: "ended" });
  });
}

type Finished = Pick<Following, "provider" | "run" | "observation">;

/** Removes the files of a job that is over. If the node refuses, they stay there, and the log has the reason. */
async function cleanUp(ctx: Ctx, { provider, run, observation }: Finished) {
  try {
    const { state } = observation;
    if (state === "running" || state === "ready") await provider.cancel(handleOf(run), "stop");
    if (state === "running") return; // it ends before the next turn
    await provider.remove(run.jobId);
  } catch (error) {
    if (!(error instanceof NodeError)) throw error;
    ctx.log.warn("cannot remove the files of a job from its node", { job: run.jobId, region: run.region, error });
  }
  if (!ctx.closing.aborted) write(ctx.db, (tx) => changeRun(tx, run, { state: "closed" }));
}

/** The next act of a run, by the status of its job. A job that was paused or queued again ends its run with a checkpoint. Pure. */
export function wish(status: JobStatus): "go on" | "save" | "stop" {
  if (status === "provisioning" || status === "running") return "go on";
  return status === "paused" || status === "queued" ? "save" : "stop";
}
