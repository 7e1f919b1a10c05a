/** Processes that run reward code, and what their users see of them. */
import type {
  Entrypoint,
  Language,
  Layer,
  Outcome,
  Rejection,
  RewardCode,
  Sample,
} from "../../lib/rewards/contract.ts";

/** How a process ended. Whatever it held is lost with it; the pool gives a fresh one. */
export type RewardEnd = { kind: "timeout" | "memory" | "crashed" | "closed"; message: string };

export type Printed = { stdout: string; stdoutBytes: number };
export type Loaded = ({ ok: true; entrypoints: Entrypoint[] } & Printed) | ({ ok: false; error: Rejection } & Printed);

/** `outcomes` are those that came before the end: in order from the first sample. */
export type Called = { outcomes: Outcome[]; end: RewardEnd | null } & Printed;

export type CallLimits = {
  /** For one sample of a function that is called for each, and of a batch that is taken apart. */
  sampleMs: number;
  /** For the first try of a batch function, in one call. */
  wholeMs: number;
  /** When all of it must be over, as performance.now() counts. */
  until: number;
};

/** One process, one piece of code, one owner. Calls go one after the other. */
export type RewardProcess = {
  readonly pid: number;
  readonly layers: readonly Layer[];
  readonly ended: Promise<RewardEnd>;
  /** Once. A timeout, a crash or too much memory is a rejection too, and the end of the process. */
  load: (code: RewardCode, timeoutMs: number) => Promise<Loaded>;
  /** Never throws: what goes wrong is in the outcomes or is the end. `end` not null: take a fresh process. */
  call: (entry: Entrypoint, samples: readonly Sample[], limits: CallLimits) => Promise<Called>;
  close: () => Promise<void>;
};

export type RewardPool = {
  /**
   * A process nobody has used and nobody else will. Waits while `sandbox.processes` are taken. Throws
   * `sandbox_unavailable` where the host offers less than `sandbox.require`, or no process starts.
   */
  take: (language: Language, signal?: AbortSignal) => Promise<RewardProcess>;
  close: () => Promise<void>;
};
