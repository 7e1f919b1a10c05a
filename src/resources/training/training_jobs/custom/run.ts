/**
 * Runs a job of method custom: a command in the jail of sessions, with code, rows and volumes in /workspace. The command
 * has no checkpoints: after a pause or a restart of the server it starts again. Its result is /workspace/output.
 */
import type { Ctx } from "../../../../context.ts";
import { type TarEntry, tarBytes, tarChunks } from "../../../../lib/archive/tar_write.ts";
import { AppError, UsageError } from "../../../../lib/errors.ts";
import { newId } from "../../../../lib/ids.ts";
import { write } from "../../../../platform/db/db.ts";
import { limitPoints, linesOf, pointsOf, throttled } from "../../../../sandbox/jail/command_output.ts";
import { type Cards, failureOf } from "../../../../sandbox/jail/custom_jail.ts";
import { startJailed } from "../../../../sandbox/jail/jail.ts";
import { sessionJail } from "../../../../sandbox/jail/session_jail.ts";
import { jailSupport } from "../../../../sandbox/jail/support.ts";
import * as secrets from "../../../access/secrets/service.ts";
import * as looseKeys from "../../../data/loose_keys/service.ts";
import { meterOf } from "../../../data/storage_usage/service.ts";
import * as gpu from "../../../machines/gpu/service.ts";
import { attachContent, filesOf, replaceFiles } from "../artifacts/exports.ts";
import { type JobLog, openLog } from "../logs/file.ts";
import { UNREPORTED_END } from "../policy.ts";
import { startFault } from "../state/inputs.ts";
import type { Run } from "../state/live.ts";
import * as moves from "../state/moves.ts";
import { note } from "../state/notes.ts";
import { recordStep } from "../state/progress.ts";
import { currentJob } from "../state/rows.ts";
import type { JobError, JobRow } from "../table.ts";
import { buildJobDir, type JobDir, removeJobDir } from "./files.ts";
import { openNetwork } from "./network.ts";
import { envOf } from "./resources.ts";
import { outputOf, writeBack } from "./results.ts";
import { nodesOf, specOf } from "./spec.ts";

const LAST_LINES = 20;

/** Returns at once. `cards`: UUIDs of the leased GPUs; empty for the CPU. */
export function startCustom(ctx: Ctx, job: JobRow, cards: readonly string[]) {
  const live = ctx.state.trainingJobs;
  const over = Promise.withResolvers<void>();
  const ending = new AbortController();
  const end = () => ending.abort();
  const run: Run = {
    jobId: job.id,
    workspaceId: job.workspaceId,
    endingAt: undefined,
    save: end,
    stop: async () => end(),
    over: over.promise,
  };
  live.addRun(run);
  void runAndSettle(ctx, job, { cards, signal: ending.signal })
    .catch((error) => ctx.log.error("cannot finish a custom job", { job: job.id, error }))
    .finally(() => {
      live.removeRun(job.id);
      over.resolve();
      ctx.wake("training_jobs.reconcile");
    });
}

type CustomRun = { log: JobLog; cards: readonly string[]; signal: AbortSignal };

async function runAndSettle(ctx: Ctx, job: JobRow, { cards, signal }: Omit<CustomRun, "log">) {
  const log = openLog(ctx, job.id);
  try {
    const outcome = await attempt(ctx, job, { log, cards, signal });
    if (ctx.closing.aborted) moves.suspend(ctx, job.id);
    else settle(ctx, job.id, outcome);
  } finally {
    log.close();
    gpu.release(ctx, job.id);
    await removeJobDir(ctx, job.id);
  }
}

/** "ended": the run was asked to end. */
type Outcome = "done" | "ended" | JobError;

/** A job that was paused or cancelled meanwhile keeps that status. */
function settle(ctx: Ctx, id: string, outcome: Outcome) {
  if (typeof outcome === "object") return void (moves.fail(ctx, id, outcome) ?? moves.conclude(ctx, id, ENDED));
  if (outcome === "ended") return void moves.conclude(ctx, id, ENDED);
  const completed = write(ctx.db, (tx) => {
    const job = currentJob(tx, id);
    return job !== undefined && moves.complete(ctx, tx, job) !== undefined;
  });
  if (!completed) moves.conclude(ctx, id, ENDED);
}

const ENDED = { ...UNREPORTED_END, kind: "stopped", message: "The command was stopped", saved: true };

async function attempt(ctx: Ctx, job: JobRow, { log, cards, signal }: CustomRun): Promise<Outcome> {
  try {
    await requireJail(ctx);
    const nodes = nodesOf(cards, ctx.state.gpu.driver);
    const dir = await buildJobDir(ctx, job);
    if (signal.aborted) return "ended";
    const device = job.gpuType === "cpu" ? "the CPU" : job.gpuType;
    moves.markRunning(ctx, job.id, { device, memoryBytes: job.memoryBytes });
    const { end, last } = await runCommand(ctx, job, { dir, cards: { uuids: cards, nodes }, log, signal });
    for (const fault of await writeBackAll(ctx, job, dir)) log.add("stderr", fault);
    if (signal.aborted && end.reason === "stopped") return "ended";
    if (end.reason !== "exited" || end.exitCode !== 0) return failureOf(end, last);
    return (await storeOutput(ctx, job, { dir, log })) ?? "done";
  } catch (error) {
    const fault = startFault(error);
    if (fault) return fault;
    ctx.log.error("a custom job failed with an unknown error", { job: job.id, error });
    return { code: "worker_crashed", message: "The command could not be run; see the server's log", param: null };
  }
}

async function requireJail(ctx: Ctx) {
  if (!ctx.config.sessions.enabled)
    throw new AppError(
      "sessions_disabled",
      "Custom jobs run in the sandbox of sessions, which this server has turned off (sessions.enabled)",
    );
  try {
    const support = await jailSupport(sessionJail(ctx.config.data_dir));
    if (!support.ok)
      throw new AppError("sessions_disabled", `This server cannot run custom jobs: ${support.reason}. ${support.fix}`);
  } catch (error) {
    if (error instanceof UsageError) throw new AppError("sessions_disabled", error.message, { cause: error });
    throw error;
  }
}

type Command = Pick<CustomRun, "log" | "signal"> & { dir: JobDir; cards: Cards };

async function runCommand(ctx: Ctx, job: JobRow, { dir, cards, log, signal }: Command) {
  const hidden = Object.fromEntries(job.secrets.map((name) => [name, secrets.reveal(ctx, job.workspaceId, name)]));
  const last: string[] = [];
  const limited = limitPoints((message) => {
    log.add("stderr", message);
    const type = "metrics_dropped";
    write(ctx.db, (tx) => note(tx, job, ctx.clock.now(), { level: "warn", type, message }));
  });
  const lines = linesOf(Object.values(hidden), (stream, printed, more) => {
    log.add(stream, printed.join("\n"), more);
    last.splice(0, last.length, ...[...last, ...printed.slice(-LAST_LINES)].slice(-LAST_LINES));
    for (const printedPoint of stream === "stdout" ? pointsOf(printed) : []) {
      const point = limited(printedPoint);
      if (point) recordStep(ctx, job.id, { type: "step", ...point, eta_ms: null, samples: [], alarms: [] });
    }
  });
  const network = await openNetwork(ctx, job, log);
  try {
    const spec = specOf(ctx, job, { dir, cards, env: envOf(ctx, job), secrets: hidden, proxy: network.proxy });
    const onOutput = throttled(lines.push, signal);
    const jail = startJailed(sessionJail(ctx.config.data_dir), spec, { stdin: "ignore", onOutput });
    const stop = () => void jail.stop();
    signal.addEventListener("abort", stop, { once: true });
    if (signal.aborted) stop();
    const end = await jail.ended.finally(() => signal.removeEventListener("abort", stop));
    lines.end();
    return { end, last: last.join("\n") };
  } finally {
    await network.close();
  }
}

export async function writeBackAll(ctx: Ctx, job: JobRow, { work, copies }: JobDir): Promise<string[]> {
  const faults: string[] = [];
  for (const copy of copies) faults.push(...(await writeBack(ctx, job, { work, copy })));
  return faults;
}

/** Stores the archive of the output before the job completes. Returns the job's failure if that is impossible. */
export async function storeOutput(ctx: Ctx, job: JobRow, { dir, log }: { dir: JobDir; log: JobLog }) {
  let output: Awaited<ReturnType<typeof outputOf>>;
  try {
    output = await outputOf(dir.work);
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    const message = `${error.message}, so the output files were not kept. Write them into the existing directory /workspace/output`;
    log.add("stderr", message);
    return { code: "worker_crashed", message, param: "/command" } satisfies JobError;
  }
  try {
    for (const fault of output.faults) log.add("stderr", fault);
    if (output.entries.length === 0) return undefined;
    await storeArchive(ctx, job, output.entries);
    return undefined;
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    const message = `The output files were not kept. ${error.message}`;
    log.add("stderr", message);
    return { code: "worker_crashed", message, param: "/command" } satisfies JobError;
  } finally {
    output.close();
  }
}

/** Holes of sparse files count, because the archive has them as zeros. */
async function storeArchive(ctx: Ctx, job: JobRow, entries: readonly TarEntry[]) {
  const { workspaceId } = job;
  const replaced = filesOf(ctx.db, job.id)?.sizeBytes ?? 0;
  using meter = meterOf(ctx, { workspaceId, kind: "checkpoints" }, { replaced });
  meter.expect(tarBytes(entries));
  const key = `jobs/${job.id}/${newId("upl", ctx.clock.now())}`;
  await looseKeys.store(ctx, {
    key,
    put: () => ctx.storage.put(key, tarChunks(entries), { meter }),
    own(tx, { bytes, sha256 }) {
      const row = replaceFiles(ctx, tx, job);
      meter.keep(bytes);
      attachContent(ctx, tx, row, { key, bytes, sha256, name: `${job.id}-output.tar` });
    },
  });
}
