/** Runs one command in a session: from the queue until every process it started has ended. */
import { closeSync } from "node:fs";
import type { Ctx } from "../../../../context.ts";
import { AppError } from "../../../../lib/errors.ts";
import { newId } from "../../../../lib/ids.ts";
import type { SseMessage } from "../../../../lib/net/sse.ts";
import { MIB, SECOND_MS } from "../../../../lib/units.ts";
import { volumeOf, workspaceOf } from "../../../../sandbox/files/sandbox_dir.ts";
import { type JailIo, startJailed } from "../../../../sandbox/jail/jail.ts";
import { sessionJail } from "../../../../sandbox/jail/session_jail.ts";
import { SESSION_ENV, sessionMounts } from "../../../../sandbox/jail/session_root.ts";
import type { JailEnd, JailRun, JailSpec } from "../../../../sandbox/jail/types.ts";
import type { CreateExec, Exec } from "../schema.ts";
import * as sessions from "../service.ts";
import type { SessionRow } from "../table.ts";
import { dirOf } from "../workspace/paths.ts";
import { openAt, readOnlyVolumes } from "../workspace/read_only.ts";
import { diskLimits } from "../workspace/usage.ts";
import { writeBack } from "../workspace/write_back.ts";
import { textOutput, textQueue } from "./output.ts";

const DEFAULT_SECONDS = 300;
const MOST_WAIT_MS = 30 * SECOND_MS;
const OPEN_FILES = 1024;
const TMP_SHARE = 4; // /tmp is memory. It gets a quarter of the memory limit.

export type AdmittedExec = {
  row: SessionRow;
  body: CreateExec;
  seconds: number;
  release: () => void;
  signal: AbortSignal;
};

/**
 * Makes all checks before the answer begins, and waits for a permit. `left` aborts when the client disconnects. The
 * caller must run the result, which releases the permit.
 */
export async function admit(ctx: Ctx, row: SessionRow, body: CreateExec, left: AbortSignal): Promise<AdmittedExec> {
  const { exec_timeout_seconds: most } = ctx.config.sessions;
  const seconds = body.timeout_seconds ?? Math.min(DEFAULT_SECONDS, most);
  if (seconds > most)
    throw new AppError("schema", `timeout_seconds: must be at most ${most} (sessions.exec_timeout_seconds)`, {
      param: "/timeout_seconds",
    });
  requireDirectory(ctx, row, body.cwd);
  const live = ctx.state.sessions.of(row);
  const signal = AbortSignal.any([left, live.ending.signal, ctx.closing]);
  const release = await live.use(ctx.clock, () => takePermit(ctx, row.workspaceId, signal));
  const fresh = sessions.find(ctx, row.id) ?? row;
  if (fresh.status !== "ready") {
    release();
    throw sessions.notReady(fresh);
  }
  return { row: fresh, body, seconds, release, signal };
}

/** Waits for a permit to run a command. Throws `no_capacity` after `MOST_WAIT_MS`, and if `signal` aborts. */
async function takePermit(ctx: Ctx, workspaceId: string, signal: AbortSignal): Promise<() => void> {
  const timeout = { clock: ctx.clock, ms: MOST_WAIT_MS };
  const release = await ctx.state.sessions.execs.acquire({ workspaceId, signal }, { timeout }).catch((reason) => {
    if (!signal.aborted) throw reason; // too many commands of the workspace wait
  });
  if (release) return release;
  throw new AppError(
    "no_capacity",
    `This server runs ${ctx.config.sessions.execs} commands at a time (sessions.execs): try again later`,
    { retryAfterSeconds: 10 },
  );
}

/** Gives a missing directory a clear error. The jail checks again, but can only report that the setup failed. */
function requireDirectory(ctx: Ctx, row: SessionRow, cwd: string) {
  if (cwd !== "/workspace" && !cwd.startsWith("/workspace/")) return;
  const beneath = openAt(ctx, row, cwd);
  try {
    closeSync(beneath.openDirectory(cwd));
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    if (error.code !== "resource_not_found" && error.code !== "path_outside_workspace") return;
    throw new AppError("schema", `cwd: there is no directory ${cwd.slice(0, 200)} in the session`, {
      param: "/cwd",
      cause: error,
    });
  } finally {
    beneath.close();
  }
}

/** Runs the command and returns all its output at the end. */
export async function run(ctx: Ctx, admitted: AdmittedExec): Promise<Exec> {
  const texts = { stdout: "", stderr: "" };
  const exec = await start(ctx, admitted, (stream, text) => {
    texts[stream] += text;
  });
  return { ...exec, ...texts };
}

/**
 * Streams `stdout` and `stderr` as they arrive, then `exit`. The command starts at once, before the first read. A
 * client that stops reading kills it.
 */
export function stream(ctx: Ctx, admitted: AdmittedExec): (left: AbortSignal) => AsyncGenerator<SseMessage> {
  const stopped = new AbortController();
  const queue = textQueue();
  const signal = AbortSignal.any([admitted.signal, stopped.signal]);
  const running = start(ctx, { ...admitted, signal }, queue.add).finally(queue.end);
  running.catch(() => {}); // The generator below throws it.
  async function* events(): AsyncGenerator<SseMessage> {
    try {
      for await (const { stream, text } of queue) yield { event: stream, data: { data: text } };
      yield { event: "exit", data: await running };
    } finally {
      stopped.abort();
    }
  }
  return (left) => {
    left.addEventListener("abort", () => stopped.abort(), { once: true }); // A client may leave before its first read.
    return events();
  };
}

type OnText = (stream: "stdout" | "stderr", text: string) => void;

const start = (ctx: Ctx, admitted: AdmittedExec, onText: OnText): Promise<Exec> =>
  occupy(ctx, admitted, () => jailed(ctx, admitted, onText));

/** The session is busy until the work has ended, which also gives back the permit. */
function occupy<T>(ctx: Ctx, { row, release }: AdmittedExec, work: () => Promise<T>): Promise<T> {
  const live = ctx.state.sessions.of(row);
  return live.use(ctx.clock, async () => {
    try {
      live.running++;
      sessions.countExec(ctx, row.id);
      return await work();
    } finally {
      live.running--;
      live.usage = undefined;
      release();
    }
  });
}

/** Starts a program whose input the caller may keep open. Its output goes to `io` alone. */
export function startProgram(ctx: Ctx, admitted: AdmittedExec, io: JailIo): Promise<JailRun> {
  const { row, signal } = admitted;
  const { promise, resolve, reject } = Promise.withResolvers<JailRun>();
  const run = async () => {
    const { warning: _, ...disk } = await diskLimits(ctx, row);
    signal.throwIfAborted(); // the directory may be removed already
    const jail = startJailed(sessionJail(ctx.config.data_dir), specOf(ctx, { ...admitted, disk }), io);
    resolve(jail);
    await untilEnd(ctx, row, jail, signal);
    await writeBack(ctx, row);
  };
  occupy(ctx, admitted, run).catch(reject);
  return promise;
}

/** Stops the jail when the signal aborts. */
async function untilEnd(ctx: Ctx, row: SessionRow, jail: JailRun, signal: AbortSignal): Promise<JailEnd> {
  const stop = () => void jail.stop();
  signal.addEventListener("abort", stop, { once: true });
  if (signal.aborted) stop();
  const end = await jail.ended.finally(() => signal.removeEventListener("abort", stop));
  if (end.reason === "disk") ctx.state.sessions.of(row).mayBeFull = true;
  return end;
}

async function jailed(ctx: Ctx, { row, body, seconds, signal }: AdmittedExec, onText: OnText): Promise<Exec> {
  const of = { object: "session.exec" as const, id: newId("exec", ctx.clock.now()), session_id: row.id };
  const silent = { stdout: "", stderr: "" };
  const never = { ...outcomeOf(NEVER), truncated: false, duration_ms: 0, warning: null, volume_errors: [] };
  if (signal.aborted) return { ...of, ...silent, ...never }; // The directory may be removed already.
  const { warning, ...disk } = await diskLimits(ctx, row);
  const output = textOutput(onText);
  const began = performance.now();
  const jail = startJailed(sessionJail(ctx.config.data_dir), specOf(ctx, { row, body, seconds, disk }), {
    stdin: new TextEncoder().encode(body.stdin),
    onOutput: output.push,
    maxBytes: ctx.config.sessions.output_bytes,
  });
  const end = await untilEnd(ctx, row, jail, signal);
  const duration_ms = Math.round(performance.now() - began);
  const truncated = end.dropped.stdout + end.dropped.stderr > 0;
  if (!truncated) output.end(); // After a truncation the last character may be incomplete; drop it.
  const volume_errors = await writeBack(ctx, row);
  return { ...of, ...outcomeOf(end), ...silent, truncated, duration_ms, warning, volume_errors };
}

const NEVER: JailEnd = {
  reason: "stopped",
  exitCode: null,
  signal: null,
  message: "",
  dropped: { stdout: 0, stderr: 0 },
};

type Outcome = Pick<Exec, "status" | "exit_code" | "signal" | "error">;

function outcomeOf({ reason, exitCode, signal, message }: JailEnd): Outcome {
  const ended = { exit_code: exitCode, signal, error: null };
  const failed = (status: Exec["status"], error: string) => ({ status, exit_code: null, signal: null, error });
  switch (reason) {
    case "exited":
      return { ...ended, status: exitCode === 0 ? "completed" : "failed" };
    case "signalled":
      return { ...ended, status: "failed" };
    case "timeout":
      return failed("timeout", `Command killed: ${message}`);
    case "memory":
      return failed("memory_exceeded", `Command killed: ${message}`);
    case "disk":
      return failed("disk_exceeded", `Command killed: ${message}`);
    case "stopped":
      return failed("cancelled", "Command killed: the session or the server stopped, or the client disconnected");
    case "setup":
      return failed("failed", `Command not started: ${message}`);
  }
}

type SpecInput = Pick<AdmittedExec, "row" | "body" | "seconds"> & {
  disk: Pick<JailSpec["limits"], "disk" | "fileBytes">;
};

function specOf(ctx: Ctx, { row, body, seconds, disk }: SpecInput): JailSpec {
  const { memory_mib, processes } = ctx.config.sessions;
  const dir = dirOf(ctx, row.id);
  const network = row.network && ctx.config.sessions.allow_network ? "host" : "none";
  const memoryBytes = memory_mib * MIB;
  const aside = readOnlyVolumes(ctx, row).map(({ index, mountPath }) => ({
    from: volumeOf(dir, index),
    to: mountPath,
    writable: false,
  }));
  return {
    // A list goes through the shell too: it searches PATH and reports a missing program.
    argv:
      typeof body.command === "string"
        ? ["/bin/sh", "-c", body.command]
        : ["/bin/sh", "-c", 'exec "$@"', "sh", ...body.command],
    env: { ...SESSION_ENV, ...sessions.envOf(ctx, row), ...body.env },
    cwd: body.cwd,
    mounts: sessionMounts({
      workspace: workspaceOf(dir),
      volumes: aside,
      network,
      tmpBytes: Math.floor(memoryBytes / TMP_SHARE),
    }),
    limits: {
      processes,
      memoryBytes,
      openFiles: OPEN_FILES,
      cpuSeconds: 0, // no limit: wallMs is enough
      wallMs: seconds * 1000,
      ...disk,
    },
    network,
    filter: "session",
  };
}
