/**
 * A job of method custom: a command in the jail of sessions, with its code, its rows and its volumes in /workspace.
 * It knows no checkpoints: paused, or cut off by the server's end, it begins again. What it leaves in /workspace/output
 * is the result.
 */
import type { Ctx } from "../../../context.ts";
import { tarChunks } from "../../../lib/archive/tar_write.ts";
import { AppError, UsageError } from "../../../lib/errors.ts";
import { newId } from "../../../lib/ids.ts";
import { write } from "../../../platform/db/db.ts";
import { startJailed } from "../../../sandbox/jail/jail.ts";
import { sessionJail } from "../../../sandbox/jail/session_jail.ts";
import { jailSupport } from "../../../sandbox/jail/support.ts";
import type { JailEnd } from "../../../sandbox/jail/types.ts";
import * as gpu from "../../gpu/service.ts";
import * as looseKeys from "../../loose_keys/service.ts";
import * as secrets from "../../secrets/service.ts";
import { own, wantFiles } from "../artifacts/exports.ts";
import { type JobLog, openLog } from "../logs/file.ts";
import { UNTOLD } from "../policy.ts";
import { startFault } from "../running/plan.ts";
import { liveOf, type Run } from "../state/live.ts";
import * as moves from "../state/moves.ts";
import * as progress from "../state/progress.ts";
import type { JobError, JobRow } from "../table.ts";
import { type Built, build, clear } from "./files.ts";
import { gently, linesOf, type Point, pointOf } from "./output.ts";
import { outputOf, writeBack } from "./results.ts";
import { type Gpu, nodesOf, specOf } from "./spec.ts";

const LAST_LINES = 20;
const MOST_POINTS = 200_000; // of a run; what comes after is in the log alone

/** Returns at once. `cards`: UUIDs of the GPUs that it leased; none: the CPU. */
export function startCustom(ctx: Ctx, job: JobRow, cards: readonly string[]) {
  const { runs } = liveOf(ctx.db);
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
  runs.set(job.id, run);
  void play(ctx, job, { cards, signal: ending.signal })
    .catch((error) => ctx.log.error("a custom job could not be dealt with", { job: job.id, error }))
    .finally(() => {
      runs.delete(job.id);
      over.resolve();
      ctx.wake("training_jobs.reconcile");
    });
}

async function play(ctx: Ctx, job: JobRow, { cards, signal }: Omit<Play, "log">) {
  const log = openLog(ctx, job.id);
  try {
    const outcome = await attempt(ctx, job, { log, cards, signal });
    if (ctx.closing.aborted) moves.suspend(ctx, job.id);
    else settle(ctx, job.id, outcome);
  } finally {
    log.close();
    gpu.release(ctx, job.id);
    await clear(ctx, job.id);
  }
}

type Outcome = "done" | "ended" | JobError;

/** Only a row that should run is moved: one that was paused or cancelled meanwhile has its verdict. */
function settle(ctx: Ctx, id: string, outcome: Outcome) {
  if (typeof outcome === "object") return void (moves.fail(ctx, id, outcome) ?? moves.conclude(ctx, id, ENDED));
  if (outcome === "ended") return void moves.conclude(ctx, id, ENDED);
  const completed = write(ctx.db, (tx) => {
    const job = moves.current(tx, id);
    return job !== undefined && moves.complete(ctx, tx, job) !== undefined;
  });
  if (!completed) moves.conclude(ctx, id, ENDED);
}

const ENDED = { ...UNTOLD, kind: "stopped", message: "It was ended", saved: true };

type Play = { log: JobLog; cards: readonly string[]; signal: AbortSignal };

async function attempt(ctx: Ctx, job: JobRow, { log, cards, signal }: Play): Promise<Outcome> {
  try {
    await requireJail(ctx);
    const nodes = nodesOf(cards);
    const built = await build(ctx, job);
    if (signal.aborted) return "ended";
    moves.begin(ctx, job.id, { device: job.gpuType === "cpu" ? "the CPU" : job.gpuType, memoryBytes: job.memoryBytes });
    const { end, last } = await command(ctx, job, { built, gpu: { cards, nodes }, log, signal });
    for (const fault of await wroteBack(ctx, job, built)) log.add("stderr", fault);
    if (signal.aborted && end.reason === "stopped") return "ended";
    if (end.reason !== "exited" || end.exitCode !== 0) return failureOf(end, last);
    return (await keepOutput(ctx, job, { built, log })) ?? "done";
  } catch (error) {
    const fault = startFault(error);
    if (fault) return fault;
    ctx.log.error("a custom job broke", { job: job.id, error });
    return {
      code: "worker_crashed",
      message: "It could not be run; the log of the server has the details",
      param: null,
    };
  }
}

async function requireJail(ctx: Ctx) {
  if (!ctx.config.sessions.enabled)
    throw new AppError("sessions_disabled", "A custom job runs in the sandbox of sessions, and those are switched off");
  try {
    const support = await jailSupport(sessionJail(ctx.config.data_dir));
    if (!support.ok)
      throw new AppError("sessions_disabled", `This server cannot run it: ${support.reason}. ${support.fix}`);
  } catch (error) {
    if (error instanceof UsageError) throw new AppError("sessions_disabled", error.message, { cause: error });
    throw error;
  }
}

type Command = Pick<Play, "log" | "signal"> & { built: Built; gpu: Gpu };

async function command(ctx: Ctx, job: JobRow, { built, gpu, log, signal }: Command) {
  const hidden = Object.fromEntries(job.secrets.map((name) => [name, secrets.reveal(ctx, job.workspaceId, name)]));
  const last: string[] = [];
  let points = 0;
  const lines = linesOf(Object.values(hidden), (stream, said) => {
    log.add(stream, said.join("\n"));
    last.splice(0, last.length, ...[...last, ...said.slice(-LAST_LINES)].slice(-LAST_LINES));
    for (const point of stream === "stdout" ? pointsOf(said) : [])
      if (points++ < MOST_POINTS)
        progress.step(ctx, job.id, { type: "step", ...point, eta_ms: null, samples: [], alarms: [] });
  });
  const jail = startJailed(sessionJail(ctx.config.data_dir), specOf(ctx, job, { built, gpu, secret: hidden }), {
    stdin: "ignore",
    onOutput: gently(lines.push, signal),
  });
  const stop = () => void jail.stop();
  signal.addEventListener("abort", stop, { once: true });
  if (signal.aborted) stop();
  const end = await jail.ended.finally(() => signal.removeEventListener("abort", stop));
  lines.end();
  return { end, last: last.join("\n") };
}

/** Of each step what was said last. */
const pointsOf = (lines: readonly string[]): Iterable<Point> =>
  new Map(lines.flatMap((line) => pointOf(line) ?? []).map((point) => [point.step, point])).values();

async function wroteBack(ctx: Ctx, job: JobRow, { work, copied }: Built): Promise<string[]> {
  const faults: string[] = [];
  for (const each of copied) faults.push(...(await writeBack(ctx, job, { work, copied: each })));
  return faults;
}

function failureOf({ reason, exitCode, signal, message }: JailEnd, last: string): JobError {
  const said = last === "" ? "" : `\n${last}`;
  if (reason === "timeout")
    return {
      code: "timeout",
      message: `It ran as long as it may: raise max_runtime_minutes${said}`,
      param: "/max_runtime_minutes",
    };
  if (reason === "memory") return { code: "out_of_memory", message: `It was ended: ${message}${said}`, param: null };
  if (reason === "setup") return { code: "provisioning_failed", message: `It did not begin: ${message}`, param: null };
  const how =
    reason === "exited"
      ? `exited with code ${exitCode}`
      : reason === "signalled"
        ? `died of signal ${signal}`
        : `was ended: ${message}`;
  return { code: "worker_crashed", message: `The command ${how}${said}`, param: "/command" };
}

/** An archive in the storage, there before the job is complete. Gives the job's failure where there can be none. */
async function keepOutput(ctx: Ctx, job: JobRow, { built, log }: { built: Built; log: JobLog }) {
  let output: Awaited<ReturnType<typeof outputOf>>;
  try {
    output = await outputOf(built.work);
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    const message = `${error.message}, so its files were not kept. Write them into the directory that is there`;
    log.add("stderr", message);
    return { code: "worker_crashed", message, param: "/command" } satisfies JobError;
  }
  try {
    for (const fault of output.faults) log.add("stderr", fault);
    if (output.entries.length === 0) return undefined;
    const key = `jobs/${job.id}/${newId("upl", ctx.clock.now())}`;
    await looseKeys.store(ctx, {
      key,
      put: () => ctx.storage.put(key, tarChunks(output.entries)),
      own: (tx, { bytes, sha256 }) =>
        own(ctx, tx, wantFiles(ctx, tx, job), { key, bytes, sha256, name: `${job.id}-output.tar` }),
    });
    return undefined;
  } finally {
    output.close();
  }
}
