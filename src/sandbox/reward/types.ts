/** Types of the processes that run reward code. */
import type {
  Act,
  Acted,
  Entrypoint,
  Environment,
  Language,
  Layer,
  Mapped,
  Outcome,
  Rejection,
  RewardCode,
  Sample,
} from "../../lib/rewards/contract.ts";

/** The end of a process. Its state is lost; the pool starts a new one. */
export type RewardEnd = { kind: "timeout" | "memory" | "crashed" | "closed"; message: string };

export type Printed = { stdout: string; stdoutBytes: number };
export type Loaded =
  | ({ ok: true; entrypoints: Entrypoint[]; environments: Environment[] } & Printed)
  | ({ ok: false; error: Rejection } & Printed);

/** `outcomes`: those that came before the end, in order from the first sample. */
export type Called = { outcomes: Outcome[]; end: RewardEnd | null } & Printed;

export type CallLimits = {
  /** For one sample, if the function is called for each sample. */
  sampleMs: number;
  /** For the first try of a batch function, in one call. */
  wholeMs: number;
  /** The deadline for the whole call, in the time of performance.now(). */
  until: number;
};

/** One process runs one piece of code for one owner, one call at a time. */
export type RewardProcess = {
  readonly pid: number;
  readonly layers: readonly Layer[];
  readonly ended: Promise<RewardEnd>;
  /** Call it once. A timeout, a crash or too much memory is a rejection too, and ends the process. */
  load: (code: RewardCode, timeoutMs: number) => Promise<Loaded>;
  /** Never throws: errors are outcomes or the end. After an end, take a new process. */
  call: (entry: Entrypoint, samples: readonly Sample[], limits: CallLimits) => Promise<Called>;
  /**
   * For a resolver. Each row has `rowMs`. Never throws; `results` are those that came before the end. The row that ended the
   * process is one of the `each` rows after them.
   */
  map: (
    rows: readonly Record<string, unknown>[],
    rowMs: number,
    each?: number,
  ) => Promise<{ results: Mapped[]; end: RewardEnd | null }>;
  /** For code with environments. Each act has `actMs`. Never throws; the act after the last result ended the process. */
  act: (acts: readonly Act[], actMs: number) => Promise<{ results: Acted[]; end: RewardEnd | null; stdout: string }>;
  close: () => Promise<void>;
};

export type RewardPool = {
  /**
   * Returns a process that no other caller has used or will use. The caller must hold a permit for it. Throws
   * `sandbox_unavailable` if the host offers less than `sandbox.require`, or if no process starts.
   */
  take: (language: Language, signal?: AbortSignal) => Promise<RewardProcess>;
  close: () => Promise<void>;
};
