/** A jail: a process in its own namespaces, made by the helper `verk-jail` (src/native/jail). */
import type { ForeignDir } from "../files/foreign_dir.ts";

export type Mount =
  | { kind: "read_only" | "writable"; from: string | ForeignDir; to: string }
  | { kind: "tmpfs"; to: string; bytes: number }
  | { kind: "symlink"; target: string; at: string }
  | { kind: "file"; at: string; text: string } // read-only, such as /etc/passwd
  | { kind: "device"; from: string; to: string } // one of the host's, such as a GPU
  | { kind: "devices" } // null, zero, full, random, urandom
  | { kind: "proc" };

/** 0 means no limit. */
export type JailLimits = {
  processes: number;
  /** Memory of all processes together. */
  memoryBytes: number;
  openFiles: number;
  /** Size of the largest file that the command may write. */
  fileBytes: number;
  cpuSeconds: number;
  wallMs: number;
  /** Processors; absent: all of them. */
  cpus?: number | undefined;
  /** Limits for the writable mount `at`. Over them, everything in the jail is killed. */
  disk?: { at: string; bytes: number; entries: number };
};

export type JailSpec = {
  argv: readonly string[];
  env: Readonly<Record<string, string>>;
  cwd: string;
  mounts: readonly Mount[];
  limits: JailLimits;
  /** `host` shares the machine's network. */
  network: "none" | "host";
  /** Socket of an HTTP proxy on the host. Programs in the jail reach it at `PROXY_URL`. Only without a network. */
  proxy?: string | undefined;
  /** The seccomp filter. `session` is a deny-list for any program. With `none` the program restricts itself. */
  filter: "session" | "none";
};

/** `setup`: the command was not started; the message says which step failed. */
export const JAIL_REASONS = ["exited", "signalled", "timeout", "memory", "disk", "stopped", "setup"] as const;
export type JailEnd = {
  reason: (typeof JAIL_REASONS)[number];
  /** Exit code of the command; null if it did not exit by itself. */
  exitCode: number | null;
  signal: number | null;
  message: string;
  /** Bytes of output beyond `maxBytes`. */
  dropped: { stdout: number; stderr: number };
};

export type JailOutput = { stream: "stdout" | "stderr"; bytes: Uint8Array };
export type JailRun = {
  readonly pid: number;
  readonly ended: Promise<JailEnd>;
  /** Kills everything in the jail with SIGKILL. */
  stop: () => Promise<JailEnd>;
  /** The input of the command, if the caller keeps it open. */
  readonly input?: Bun.FileSink | undefined;
};

/** If this host cannot make jails: the reason and the fix. */
export type JailSupport = { ok: true } | { ok: false; reason: string; fix: string };
