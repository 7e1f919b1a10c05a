/** A process in namespaces of its own, made by the helper `verk-jail` (src/native/jail). */
import type { ForeignDir } from "../files/foreign_dir.ts";

export type Mount =
  | { kind: "read_only" | "writable"; from: string | ForeignDir; to: string }
  | { kind: "tmpfs"; to: string; bytes: number }
  | { kind: "symlink"; target: string; at: string }
  | { kind: "file"; at: string; text: string } // read-only, such as /etc/passwd
  | { kind: "device"; from: string; to: string } // one of the host's, such as a GPU
  | { kind: "devices" } // null, zero, full, random, urandom
  | { kind: "proc" };

/** 0 = no limit. */
export type JailLimits = {
  processes: number;
  /** Of all its processes together. */
  memoryBytes: number;
  openFiles: number;
  /** Largest single file it may write. */
  fileBytes: number;
  cpuSeconds: number;
  wallMs: number;
  /** What may lie under `at`, a writable mount; over it everything in the jail is killed. */
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
  /** `session`: a deny-list for any program. `none`: the program locks itself. */
  filter: "session" | "none";
};

/** `setup`: it never began; the message says what the host refused. */
export const JAIL_REASONS = ["exited", "signalled", "timeout", "memory", "disk", "stopped", "setup"] as const;
export type JailEnd = {
  reason: (typeof JAIL_REASONS)[number];
  /** Of the command; null where it did not end by itself. */
  exitCode: number | null;
  signal: number | null;
  message: string;
  /** Bytes of output beyond what the caller wanted. */
  dropped: { stdout: number; stderr: number };
};

export type JailOutput = { stream: "stdout" | "stderr"; bytes: Uint8Array };
export type JailRun = {
  readonly pid: number;
  readonly ended: Promise<JailEnd>;
  /** SIGKILL to everything inside. */
  stop: () => Promise<JailEnd>;
};

/** What this host can do, and otherwise why not and how to change it. */
export type JailSupport = { ok: true } | { ok: false; reason: string; fix: string };
