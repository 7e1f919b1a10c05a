/**
 * Feeds the records of a remote run through the door of all runs. One commit stores how far they are taken, so after a
 * kill some come twice: messages change nothing then, and the log is cut back first.
 */
import type { Ctx } from "../../../../context.ts";
import { AppError } from "../../../../lib/errors.ts";
import { OutsideError } from "../../../../lib/json/outside.ts";
import { takingTurns } from "../../../../lib/turns.ts";
import { write } from "../../../../platform/db/db.ts";
import { readAside } from "../../../../platform/outside.ts";
import type { Handle, Observation } from "../../../../platform/providers/protocol.ts";
import { removeStaging, stagingDir } from "../../../../platform/providers/staging.ts";
import { DamagedFile, NodeError, type Provider } from "../../../../platform/providers/types.ts";
import { adoptTree, bytesIn, exists, makeDir } from "../../../../sandbox/files/trees.ts";
import type { FromTrainer } from "../../../../workers/protocol_trainer.ts";
import { meterOf } from "../../../data/storage_usage/service.ts";
import type { RegionRow } from "../../../machines/regions/table.ts";
import { FILE_BYTES, type JobLog, openLog } from "../logs/file.ts";
import { type RunEnd, UNREPORTED_END } from "../policy.ts";
import { changeRun, openRunOf, type RemoteRunRow } from "../remote_runs.ts";
import { takeEnd, takeMessage, withoutInternals } from "../running/door.ts";
import { bytesBeforeNext, keptCheckpoints } from "../state/checkpoint_files.ts";
import * as moves from "../state/moves.ts";
import { pathsOf } from "../state/paths.ts";
import { currentJob, isFinished } from "../state/rows.ts";
import { takeResults } from "./custom_results.ts";
import { NODE_RECORD, type NodeRecord } from "./record_form.ts";

export const handleOf = ({ jobId: job, attempt }: Pick<RemoteRunRow, "jobId" | "attempt">): Handle => ({
  job,
  attempt,
});

type Pull = {
  provider: Provider;
  region: RegionRow;
  run: RemoteRunRow;
  observation: Observation;
};

/** Takes the new records, and concludes the run if nothing more can come. */
export async function pullRecords(ctx: Ctx, { provider, region, run, observation }: Pull) {
  const { state, bytes, lost } = observation;
  const handle = handleOf(run);
  let { offset, runEnd: end } = run;
  while (offset < bytes) {
    const fetched = await provider.fetch(handle, offset);
    if (ctx.closing.aborted) return;
    if (fetched.length === 0) break; // a torn line of a run that was killed
    const taken = await takeBatch(ctx, { provider, region, run, fetched, end }).catch((error) =>
      postpone(ctx, { run, region, end }, error),
    );
    if (!taken) return; // the server ends, or the next try comes later
    offset += fetched.length;
    end = taken.end;
    write(ctx.db, (tx) => changeRun(tx, run, { offset, logBytes: taken.logBytes, runEnd: end }));
    run = { ...run, offset, logBytes: taken.logBytes, runEnd: end };
    if (taken.isOver) return await concludeRun(ctx, run, end);
  }
  if (state === "running" || state === "ready") return;
  const isCustom = currentJob(ctx.db, run.jobId)?.method === "custom"; // it has no checkpoints
  if (!isCustom && (offset > 0 || state === "lost")) await pullNewest(ctx, { provider, run });
  await concludeRun(ctx, run, { ...end, ...NO_REPORT, ...lost, killed: (lost ?? NO_REPORT).kind === "crashed" });
}

const NO_REPORT = {
  kind: "crashed",
  message: "The run on the node ended without a report: the node was restarted, or its supervisor was killed",
};

type Batch = { provider: Provider; region: RegionRow; run: RemoteRunRow; fetched: Uint8Array; end: RunEnd };
type Taken = { end: RunEnd; logBytes: number; isOver: boolean };

/** Undefined if the server ends meanwhile; then nothing of the batch counts as taken. */
async function takeBatch(ctx: Ctx, { provider, region, run, fetched, end: before }: Batch): Promise<Taken | undefined> {
  const log = openLog(ctx, run.jobId, FILE_BYTES, run.logBytes);
  const end = { ...before };
  let isOver = false;
  try {
    const turn = takingTurns();
    for (const line of linesOf(fetched)) {
      await turn();
      if (ctx.closing.aborted) return undefined;
      const record = await readRecord(line, region.workspaceId);
      if (record === undefined) {
        Object.assign(end, UNREADABLE);
        return { end, logBytes: log.bytes(), isOver: true };
      }
      if ("exit" in record) {
        Object.assign(end, record.exit, { tail: withoutInternals(record.exit.tail, region.workDir) });
        if (end.tail.trim() !== "") log.add("stderr", end.tail.trim());
        const job = currentJob(ctx.db, run.jobId);
        if (job?.method === "custom") await takeResults(ctx, job, { provider, run, log, end });
        isOver = true;
      } else await takeOne(ctx, { provider, run, log, end, message: record.message });
    }
    return { end, logBytes: log.bytes(), isOver };
  } finally {
    log.close();
  }
}

const PULLS = 3; // of a file that comes damaged
const FIRST_PAUSE_MS = 5_000;
const FULL_PAUSE_MS = 30_000;

type Postponed = { run: RemoteRunRow; region: RegionRow; end: RunEnd };

/** Plans the next try. The run ends when a file came damaged too often. The row counts, so a restart does not begin anew. */
async function postpone(ctx: Ctx, { run, region, end }: Postponed, error: unknown): Promise<undefined> {
  const { pullsNotBefore } = ctx.state.trainingJobs;
  const now = ctx.clock.steady();
  if (error instanceof AppError && error.code === "storage_unavailable") {
    pullsNotBefore.set(run.jobId, now + FULL_PAUSE_MS);
    ctx.log.warn("cannot pull a checkpoint", { job: run.jobId, region: run.region, error });
    return undefined;
  }
  if (!(error instanceof DamagedFile)) throw error;
  const damaged = (run.runEnd.damaged ?? 0) + 1;
  if (damaged >= PULLS) {
    const message = `The node of region ${region.name} sent ${error.file} damaged ${damaged} times: its content does not have the hash or the size that the node said. Check the node and its disk, then start the job again`;
    await concludeRun(ctx, run, { ...end, ...UNREPORTED_END, kind: "lied", message });
    return undefined;
  }
  pullsNotBefore.set(run.jobId, now + FIRST_PAUSE_MS * 4 ** (damaged - 1));
  write(ctx.db, (tx) => changeRun(tx, run, { runEnd: { ...run.runEnd, damaged } }));
  ctx.log.warn("a file of a node was damaged on the way", {
    job: run.jobId,
    region: run.region,
    file: error.file,
    damaged,
  });
  return undefined;
}

const UNREADABLE = { kind: "lied", message: "The node sent a record that cannot be read" };

const LF = 10;

function* linesOf(bytes: Uint8Array): Generator<Uint8Array> {
  for (let from = 0; from < bytes.length; ) {
    const end = bytes.indexOf(LF, from);
    const to = end < 0 ? bytes.length : end;
    if (to > from) yield bytes.subarray(from, to);
    from = to + 1;
  }
}

async function readRecord(line: Uint8Array, workspaceId: string): Promise<NodeRecord | undefined> {
  try {
    return await readAside(NODE_RECORD, line, { workspaceId });
  } catch (error) {
    if (error instanceof OutsideError) return undefined;
    throw error;
  }
}

type One = { provider: Provider; run: RemoteRunRow; log: JobLog; end: RunEnd; message: FromTrainer };

/** The files of a checkpoint come before its row. */
async function takeOne(ctx: Ctx, { provider, run, log, end, message }: One) {
  const id = run.jobId;
  if (message.type !== "checkpoint") return await takeMessage(ctx, { id, log, end }, message);
  const bytes = await pullOrPause(ctx, { provider, run }, message.path.split("/").at(-1) ?? "");
  if (bytes === undefined) return;
  delete end.damaged;
  await takeMessage(ctx, { id, log, end }, { ...message, size_bytes: bytes }); // not as many as the node says
  await dropPruned(ctx, { provider, run });
}

type Source = { provider: Provider; run: RemoteRunRow };

/** A job whose checkpoint is beyond the quota pauses, as on this machine. */
async function pullOrPause(ctx: Ctx, source: Source, name: string): Promise<number | undefined> {
  try {
    return await pullCheckpoint(ctx, source, name);
  } catch (error) {
    if (!(error instanceof AppError) || error.code !== "quota_exceeded") throw error;
    moves.pauseForStorage(ctx, source.run.jobId, `the checkpoint ${name} was not pulled. ${error.message}`);
    return undefined;
  }
}

/**
 * Returns the bytes of the checkpoint, or undefined if the node no longer has it. The directory gets its name when all
 * files are there and flushed.
 */
async function pullCheckpoint(ctx: Ctx, { provider, run }: Source, name: string): Promise<number | undefined> {
  const { checkpoints } = pathsOf(ctx, run.jobId);
  makeDir(checkpoints);
  if (exists(checkpoints.below(name))) return bytesIn(checkpoints.below(name));
  const job = currentJob(ctx.db, run.jobId);
  if (!job) return undefined;
  const { workspaceId } = job;
  using meter = meterOf(ctx, { workspaceId, kind: "checkpoints" }, { replaced: bytesBeforeNext(ctx, job) });
  const { data_dir: dataDir } = ctx.config;
  const staging = `${run.jobId}-pull`;
  const into = `${stagingDir(dataDir, staging)}/${name}`;
  try {
    if (!(await provider.pull(handleOf(run), name, into, meter)) || ctx.closing.aborted) return undefined;
    await adoptTree(into, checkpoints.below(name));
    return await bytesIn(checkpoints.below(name));
  } finally {
    removeStaging(dataDir, staging);
  }
}

/** After a loss, the newest checkpoint may be one that no record names. */
async function pullNewest(ctx: Ctx, { provider, run }: Source) {
  try {
    const newest = (await provider.checkpoints(handleOf(run), [])).at(-1);
    if (newest !== undefined) await pullCheckpoint(ctx, { provider, run }, newest);
  } catch (error) {
    if (!(error instanceof NodeError) && !(error instanceof AppError)) throw error;
    ctx.log.warn("cannot pull the newest checkpoint", { job: run.jobId, error });
  }
}

/** The node keeps what this server keeps, and anything newer. */
async function dropPruned(ctx: Ctx, { provider, run }: Source) {
  const kept = keptCheckpoints(ctx.db, run.jobId).map(({ path }) => path.split("/").at(-1) ?? "");
  const newest = kept.at(-1);
  if (newest === undefined) return;
  const names = await provider.checkpoints(handleOf(run), []);
  const drop = names.filter((name) => name < newest && !kept.includes(name));
  if (drop.length > 0) await provider.checkpoints(handleOf(run), drop);
}

/**
 * Applies the end to the job and closes the run in the same commit. A job that completes is closed after its result is
 * stored, so that a kill in between repeats this.
 */
export async function concludeRun(ctx: Ctx, run: RemoteRunRow, end: RunEnd) {
  if (ctx.closing.aborted) return;
  await takeEnd(ctx, run.jobId, end, () =>
    write(ctx.db, (tx) => {
      const next = moves.conclude(ctx, run.jobId, end);
      if (next !== "complete") changeRun(tx, run, { state: stateAfter(ctx, run.jobId) });
      return next;
    }),
  );
  if (openRunOf(ctx.db, run.jobId)?.attempt === run.attempt && !ctx.closing.aborted)
    write(ctx.db, (tx) => changeRun(tx, run, { state: stateAfter(ctx, run.jobId) }));
  ctx.wake("training_jobs.reconcile");
}

/** The files on the node stay for a job that goes on. */
function stateAfter(ctx: Ctx, id: string): "ended" | "closed" {
  const job = currentJob(ctx.db, id);
  return job && isFinished(job) ? "ended" : "closed";
}
