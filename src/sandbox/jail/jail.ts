/**
 * Runs a command in a jail. The helper dies with this process, and everything in the jail dies with the helper. So a
 * crash leaves no process behind.
 */
import { closeSync, readSync, statSync, writeSync } from "node:fs";
import { memoryFile, neverBlock, pipe, widenPipe } from "../../native/jail/jail.ts";
import { noteEnded } from "../../platform/turn_watch.ts";
import { openShare } from "./share.ts";
import { encodeSpec, type JailOwner } from "./spec.ts";
import { JAIL_REASONS, type JailEnd, type JailOutput, type JailRun, type JailSpec } from "./types.ts";

export type Jail = {
  /** Path of the helper: jailPath(dataDir). */
  path: string;
  /** The user of the command if the server is root: see jailOwner. */
  owner?: JailOwner;
};

export type JailIo = {
  /** `open`: the caller writes to `input` of the run. */
  stdin?: Uint8Array | "ignore" | "open";
  /** A returned promise is awaited before the next read. */
  onOutput?: (output: JailOutput) => void | Promise<void>;
  /** Limit for each stream. Further output is read, counted and dropped. */
  maxBytes?: number;
};

const NOBODY: JailOwner = { uid: 65_534, gid: 65_534 };
const STOP_GRACE_MS = 2000;
const STDIN_PIPE_BYTES = 1 << 20;
const STDIN_PAUSE_MS = 5;

/** The user of a jail if the server is root: the owner of the data directory, or `nobody`. It must own writable mounts. */
export function jailOwner(dataDir: string): JailOwner {
  const { uid, gid } = statSync(dataDir);
  return uid === 0 || gid === 0 ? NOBODY : { uid, gid };
}

export type PreparedJail = {
  cmd: string[];
  /** Descriptors 3 and 4 of the child. */
  stdio: [spec: number, report: number];
  /** Call it once after the spawn: the child has its own copies of the descriptors. */
  spawned: () => void;
  /** Call it once after the child has ended. */
  end: () => JailEnd;
  /** Call it instead of the two others if the spawn failed. */
  discard: () => void;
};

/** For a caller that spawns the child itself: `Bun.spawn(cmd, { env: {}, cwd: "/", stdio: [in, out, err, ...stdio] })`. */
export function prepareJail(jail: Jail, spec: JailSpec, probe = false): PreparedJail {
  const share = probe ? undefined : openShare();
  const specFd = memoryFile(encodeSpec(spec, jail.owner ?? NOBODY, { probe, share: share?.procs }));
  const report = pipe();
  neverBlock(report.read);
  const spawned = () => {
    closeSync(specFd);
    closeSync(report.write);
  };
  return {
    cmd: [jail.path],
    stdio: [specFd, report.write],
    spawned,
    end() {
      const line = readLine(report.read);
      closeSync(report.read);
      share?.close();
      return parseEnd(line);
    },
    discard() {
      spawned();
      closeSync(report.read);
      share?.close();
    },
  };
}

type Stdio = number | "ignore" | "pipe" | "inherit";

/** Spawns the helper. The command gets these as stdin, stdout and stderr. */
export function spawnPrepared<In extends Stdio, Out extends Stdio, Err extends Stdio>(
  prepared: PreparedJail,
  [stdin, stdout, stderr]: [In, Out, Err],
) {
  try {
    const child = Bun.spawn(prepared.cmd, { env: {}, cwd: "/", stdio: [stdin, stdout, stderr, ...prepared.stdio] });
    prepared.spawned();
    void child.exited.then(noteEnded);
    return child;
  } catch (error) {
    prepared.discard();
    throw error;
  }
}

export function startJailed(jail: Jail, spec: JailSpec, io: JailIo = {}): JailRun {
  const prepared = prepareJail(jail, spec);
  const [stdout, stderr] = [pipe(), pipe()];
  const stdin = io.stdin instanceof Uint8Array ? pipe() : undefined;
  const ours = [stdout.read, stderr.read, ...(stdin === undefined ? [] : [stdin.write])];
  const theirs = [stdout.write, stderr.write, ...(stdin === undefined ? [] : [stdin.read])];
  let child: Bun.Subprocess;
  try {
    const input = io.stdin === "open" ? "pipe" : (stdin?.read ?? "ignore");
    child = spawnPrepared(prepared, [input, stdout.write, stderr.write]);
  } catch (error) {
    for (const fd of ours) closeSync(fd);
    throw error;
  } finally {
    for (const fd of theirs) closeSync(fd);
  }
  if (stdin !== undefined && io.stdin instanceof Uint8Array) void writeInput(stdin.write, io.stdin, child.exited);
  let stopping = false;
  const ended = (async (): Promise<JailEnd> => {
    const [out, err] = await Promise.all([
      drain(stdout.read, "stdout", io),
      drain(stderr.read, "stderr", io),
      child.exited,
    ]);
    const end = prepared.end();
    const stopped = stopping && end.reason === "setup" ? { reason: "stopped" as const, message: "stopped" } : {};
    return { ...end, ...stopped, dropped: { stdout: out, stderr: err } };
  })();
  const stop = async () => {
    stopping = true;
    child.kill("SIGTERM"); // The helper kills the jail, waits for it and reports the end.
    const hard = setTimeout(() => child.kill("SIGKILL"), STOP_GRACE_MS);
    return await ended.finally(() => clearTimeout(hard));
  };
  const input = typeof child.stdin === "object" ? child.stdin : undefined;
  return { pid: child.pid, ended, stop, input };
}

/** Returns the number of dropped bytes. Reads until the end, because a full pipe would block the command. */
async function drain(fd: number, stream: JailOutput["stream"], io: JailIo): Promise<number> {
  let left = io.maxBytes ?? Number.POSITIVE_INFINITY;
  let dropped = 0;
  try {
    for await (const chunk of Bun.file(fd).stream()) {
      const bytes = chunk.byteLength > left ? chunk.subarray(0, left) : chunk;
      left -= bytes.byteLength;
      dropped += chunk.byteLength - bytes.byteLength;
      if (bytes.byteLength > 0) await io.onOutput?.({ stream, bytes });
    }
  } finally {
    closeSync(fd);
  }
  return dropped;
}

/** Writes the input. If the command does not read it, this ends together with the command. */
async function writeInput(fd: number, bytes: Uint8Array, exited: Promise<number>) {
  let over = false;
  void exited.then(() => {
    over = true;
  });
  neverBlock(fd);
  widenPipe(fd, STDIN_PIPE_BYTES);
  try {
    for (let at = 0; at < bytes.byteLength && !over; ) {
      const written = tryWrite(fd, bytes.subarray(at));
      at += written;
      if (written === 0) await Bun.sleep(STDIN_PAUSE_MS);
    }
  } catch {
    // EPIPE: the command has closed its input.
  } finally {
    closeSync(fd);
  }
}

function tryWrite(fd: number, bytes: Uint8Array): number {
  try {
    return writeSync(fd, bytes);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "EAGAIN") return 0;
    throw error;
  }
}

function readLine(fd: number): string {
  const buffer = Buffer.alloc(4096);
  try {
    const text = buffer.toString("utf8", 0, readSync(fd, buffer));
    return text.split("\n", 1)[0] ?? "";
  } catch {
    return ""; // EAGAIN: the helper reported nothing.
  }
}

const nullable = (value: string) => (value === "-1" ? null : Number(value));

/** Parses `reason exit_code signal message`, where -1 means null. */
function parseEnd(line: string): JailEnd {
  const [, word, exitCode = "", signal = "", message = ""] = /^(\w+) (-?\d+) (-?\d+) ?(.*)$/.exec(line) ?? [];
  const reason = JAIL_REASONS.find((each) => each === word);
  const none = { stdout: 0, stderr: 0 };
  if (reason === undefined) {
    return {
      reason: "setup",
      exitCode: null,
      signal: null,
      message: "the helper ended without a report",
      dropped: none,
    };
  }
  return { reason, exitCode: nullable(exitCode), signal: nullable(signal), message, dropped: none };
}
