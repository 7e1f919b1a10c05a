/** One command in a session, from its place in the line to the end of everything it started. */
import { closeSync } from "node:fs";
import type { Ctx } from "../../../context.ts";
import type { SseMessage } from "../../../http/answer/sse.ts";
import { AppError } from "../../../lib/errors.ts";
import { newId } from "../../../lib/ids.ts";
import { openWorkspace, volumeOf, workspaceOf } from "../../../sandbox/files/sandbox_dir.ts";
import { startJailed } from "../../../sandbox/jail/jail.ts";
import { sessionJail } from "../../../sandbox/jail/session_jail.ts";
import { SESSION_ENV, sessionMounts } from "../../../sandbox/jail/session_root.ts";
import type { JailEnd, JailSpec } from "../../../sandbox/jail/types.ts";
import { during, liveOf } from "../live.ts";
import type { CreateExec, Exec } from "../schema.ts";
import * as sessions from "../service.ts";
import type { SessionRow } from "../table.ts";
import { isInWorkspace } from "../workspace/mount_paths.ts";
import { dirOf } from "../workspace/paths.ts";
import { diskLimits } from "../workspace/usage.ts";
import { writeBack } from "../workspace/write_back.ts";
import { textOutput, textQueue } from "./output.ts";
import { takeSlot } from "./slots.ts";

const DEFAULT_SECONDS = 300;
const OPEN_FILES = 1024;
const MIB = 1_048_576;
const TMP_SHARE = 4; // /tmp is memory: a quarter of what the command may have

export type Admitted = { row: SessionRow; body: CreateExec; seconds: number; release: () => void; signal: AbortSignal };

/** All that can be refused, before anything is answered. `left`: aborts when the caller goes. Whoever has it runs it. */
export async function admit(ctx: Ctx, row: SessionRow, body: CreateExec, left: AbortSignal): Promise<Admitted> {
  const { exec_timeout_seconds: most } = ctx.config.sessions;
  const seconds = body.timeout_seconds ?? Math.min(DEFAULT_SECONDS, most);
  if (seconds > most)
    throw new AppError("schema", `timeout_seconds: takes at most ${most} (sessions.exec_timeout_seconds)`, {
      param: "/timeout_seconds",
    });
  requireDirectory(ctx, row, body.cwd);
  const live = liveOf(ctx, row);
  const signal = AbortSignal.any([left, live.ending.signal, ctx.closing]);
  const release = await during(ctx, live, () => takeSlot(ctx, row.workspaceId, signal));
  const fresh = sessions.find(ctx, row.id) ?? row;
  if (fresh.status !== "ready") {
    release();
    throw sessions.notReady(fresh);
  }
  return { row: fresh, body, seconds, release, signal };
}

/** What it can see from here; the jail looks for itself, but only says that it did not begin. */
function requireDirectory(ctx: Ctx, row: SessionRow, cwd: string) {
  if (cwd !== "/workspace" && !cwd.startsWith("/workspace/")) return;
  const beneath = openWorkspace(dirOf(ctx, row.id));
  try {
    closeSync(beneath.openDirectory(cwd));
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    if (error.code !== "resource_not_found" && error.code !== "path_outside_workspace") return;
    throw new AppError("schema", `cwd: no directory ${cwd.slice(0, 200)} in /workspace`, {
      param: "/cwd",
      cause: error,
    });
  } finally {
    beneath.close();
  }
}

/** Buffered. */
export async function run(ctx: Ctx, admitted: Admitted): Promise<Exec> {
  const texts = { stdout: "", stderr: "" };
  const exec = await start(ctx, admitted, (stream, text) => {
    texts[stream] += text;
  });
  return { ...exec, ...texts };
}

/**
 * Streamed: `stdout` and `stderr` as they come, then `exit`. It runs from now on, whether or not anybody comes to read;
 * who stops reading ends it.
 */
export function stream(ctx: Ctx, admitted: Admitted): (left: AbortSignal) => AsyncGenerator<SseMessage> {
  const gone = new AbortController();
  const queue = textQueue();
  const signal = AbortSignal.any([admitted.signal, gone.signal]);
  const running = start(ctx, { ...admitted, signal }, queue.add).finally(queue.end);
  running.catch(() => {}); // told below
  async function* events(): AsyncGenerator<SseMessage> {
    try {
      for await (const { stream, text } of queue) yield { event: stream, data: { data: text } };
      yield { event: "exit", data: await running };
    } finally {
      gone.abort();
    }
  }
  return (left) => {
    left.addEventListener("abort", () => gone.abort(), { once: true }); // also of one that never begins to read
    return events();
  };
}

type OnText = (stream: "stdout" | "stderr", text: string) => void;

function start(ctx: Ctx, admitted: Admitted, onText: OnText): Promise<Exec> {
  const { row, release } = admitted;
  const live = liveOf(ctx, row);
  return during(ctx, live, async () => {
    try {
      live.running++;
      sessions.countExec(ctx, row.id);
      return await jailed(ctx, admitted, onText);
    } finally {
      live.running--;
      live.usage = undefined;
      release();
    }
  });
}

async function jailed(ctx: Ctx, { row, body, seconds, signal }: Admitted, onText: OnText): Promise<Exec> {
  const of = { object: "session.exec" as const, id: newId("exec", ctx.clock.now()), session_id: row.id };
  const silent = { stdout: "", stderr: "" };
  const never = { ...outcomeOf(NEVER), truncated: false, duration_ms: 0, warning: null, volume_errors: [] };
  if (signal.aborted) return { ...of, ...silent, ...never }; // the directory may be gone already
  const { warning, ...disk } = await diskLimits(ctx, row);
  const output = textOutput(onText);
  const began = performance.now();
  const jail = startJailed(sessionJail(ctx.config.data_dir), specOf(ctx, { row, body, seconds, disk }), {
    stdin: new TextEncoder().encode(body.stdin),
    onOutput: output.push,
    maxBytes: ctx.config.sessions.output_bytes,
  });
  const stop = () => void jail.stop();
  signal.addEventListener("abort", stop, { once: true });
  if (signal.aborted) stop();
  const end = await jail.ended.finally(() => signal.removeEventListener("abort", stop));
  const duration_ms = Math.round(performance.now() - began);
  const truncated = end.dropped.stdout + end.dropped.stderr > 0;
  if (!truncated) output.end(); // else: half a character, cut by us
  if (end.reason === "disk") liveOf(ctx, row).mayBeFull = true;
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
      return failed("timeout", `It was ended: ${message}`);
    case "memory":
      return failed("memory_exceeded", `It was ended: ${message}`);
    case "disk":
      return failed("disk_exceeded", `It was ended: ${message}`);
    case "stopped":
      return failed("cancelled", "It was ended: the session or the server stopped, or the caller left");
    case "setup":
      return failed("failed", `It did not begin: ${message}`);
  }
}

type Wanted = Pick<Admitted, "row" | "body" | "seconds"> & { disk: Pick<JailSpec["limits"], "disk" | "fileBytes"> };

function specOf(ctx: Ctx, { row, body, seconds, disk }: Wanted): JailSpec {
  const { memory_mib, processes } = ctx.config.sessions;
  const dir = dirOf(ctx, row.id);
  const network = row.network && ctx.config.sessions.allow_network ? "host" : "none";
  const memoryBytes = memory_mib * MIB;
  const aside = row.volumes.flatMap(({ mountPath }, i) =>
    isInWorkspace(mountPath) ? [] : [{ from: volumeOf(dir, i), to: mountPath, writable: false }],
  );
  return {
    // a list goes through the shell too, which looks for the program in PATH and says so when there is none
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
      cpuSeconds: 0, // the wall is the limit
      wallMs: seconds * 1000,
      ...disk,
    },
    network,
    filter: "session",
  };
}
