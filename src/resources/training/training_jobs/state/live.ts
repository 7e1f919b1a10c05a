/** The live state of training jobs: what only this process knows. It is lost with the process; rows and files stay. */
import type { Clock } from "../../../../platform/clock.ts";
import { Semaphore } from "../../../../platform/semaphore.ts";

declare module "../../../../context.ts" {
  interface State {
    readonly trainingJobs: TrainingJobsState;
  }
}

/** A trainer process, or a command in a jail, that works for a job. */
export type Run = {
  readonly jobId: string;
  readonly workspaceId: string;
  /** Asks the run to save and end. Returns at once; the run may take its time. */
  save: () => void;
  stop: (reason: string) => Promise<unknown>;
  /** Resolves when the run has ended and the row has been updated. */
  readonly over: Promise<void>;
  /** The time of the first request to end. */
  endingAt: number | undefined;
};

/** The reading of a job's connected dataset. It ends before `over` resolves, which never rejects. */
export type DatasetReading = { readonly abort: AbortController; readonly over: Promise<void> };

const PREVIEWS = 3; // at the same time: each loads a model

const POLL_MS = 1_000; // a change without a signal is noticed this much later

/** Wakes readers of a job's log or state when there may be more to read. */
class ChangeSignals {
  readonly #waiting = new Map<string, Set<() => void>>();

  /** Call it when the log has more lines or the row has changed. */
  notify(jobId: string) {
    for (const wake of this.#waiting.get(jobId) ?? []) wake();
  }

  /** Resolves at the next change, after a second at the latest, or when `signal` aborts. */
  async next(clock: Clock, jobId: string, signal: AbortSignal): Promise<void> {
    const waiting = this.#waiting.get(jobId) ?? new Set();
    this.#waiting.set(jobId, waiting);
    const changed = new AbortController();
    const wake = () => changed.abort();
    waiting.add(wake);
    try {
      await clock.sleep(POLL_MS, AbortSignal.any([signal, changed.signal]));
    } finally {
      waiting.delete(wake);
      if (waiting.size === 0) this.#waiting.delete(jobId);
    }
  }
}

type Positions = { generation: number; byJob: ReadonlyMap<string, number> };

export class TrainingJobsState {
  readonly #runs = new Map<string, Run>();
  #starts = 0;
  /** Workspace → the number of its last start, for the turns of the queue. */
  readonly lastStarts = new Map<string, number>();
  readonly #launching = new Set<string>();
  readonly #awaitingMemory = new Set<string>();
  readonly #admitting = new Set<string>();
  readonly #readings = new Map<string, DatasetReading>();
  readonly #storingLogs = new Set<string>();
  #filling: Promise<void> | undefined;
  #positions: Positions | undefined;

  /** Region → the work for its runs that is under way. */
  readonly syncing = new Map<string, Promise<void>>();
  /** Job → the time of the next try to pull its records from a node. */
  readonly pullsNotBefore = new Map<string, number>();
  readonly changes = new ChangeSignals();
  /** At the last measurement of the machine. */
  processorTimes: { busy: number; all: number } | undefined;
  /** Permits for files that are made of checkpoints, and the ids of those that are being made. */
  readonly exports = new Semaphore({ name: "exports", permits: 2 });
  readonly exporting = new Set<string>();
  /** Permits for dry runs. */
  readonly previews = new Semaphore({ name: "dry runs", permits: PREVIEWS });

  addRun(run: Run) {
    this.#runs.set(run.jobId, run);
    this.lastStarts.set(run.workspaceId, ++this.#starts);
  }

  removeRun(jobId: string) {
    this.#runs.delete(jobId);
  }

  run(jobId: string): Run | undefined {
    return this.#runs.get(jobId);
  }

  runs(): Run[] {
    return [...this.#runs.values()];
  }

  get runCount(): number {
    return this.#runs.size;
  }

  /** The job has a process, or is about to get one. */
  isActive(jobId: string): boolean {
    return this.#runs.has(jobId) || this.#launching.has(jobId);
  }

  /** Counts the job as active while `work` gets memory and a process for it. */
  async launching(jobId: string, work: () => Promise<void>): Promise<void> {
    this.#launching.add(jobId);
    try {
      await work();
    } finally {
      this.#launching.delete(jobId);
    }
  }

  /** Jobs that wait in the queue of the GPU ledger. */
  jobsAwaitingMemory(): string[] {
    return [...this.#awaitingMemory];
  }

  setAwaitingMemory(jobId: string, isAwaiting: boolean) {
    if (isAwaiting) this.#awaitingMemory.add(jobId);
    else this.#awaitingMemory.delete(jobId);
  }

  /** A job without a row yet. The sweep leaves its pinned datasets and its files alone. */
  isAdmitting(jobId: string): boolean {
    return this.#admitting.has(jobId);
  }

  async admitting<T>(jobId: string, work: () => Promise<T>): Promise<T> {
    this.#admitting.add(jobId);
    try {
      return await work();
    } finally {
      this.#admitting.delete(jobId);
    }
  }

  addReading(jobId: string, reading: DatasetReading) {
    this.#readings.set(jobId, reading);
  }

  removeReading(jobId: string) {
    this.#readings.delete(jobId);
  }

  isReading(jobId: string): boolean {
    return this.#readings.has(jobId);
  }

  readings(): [jobId: string, DatasetReading][] {
    return [...this.#readings];
  }

  /** Does nothing while the log of this job is already being stored. */
  async storingLog(jobId: string, work: () => Promise<void>): Promise<void> {
    if (this.#storingLogs.has(jobId)) return;
    this.#storingLogs.add(jobId);
    try {
      await work();
    } finally {
      this.#storingLogs.delete(jobId);
    }
  }

  /** Only one pass over the queue at a time, so that no permit is given twice. A second call joins the first pass. */
  fillOnce(work: () => Promise<void>): Promise<void> {
    this.#filling ??= work().finally(() => {
      this.#filling = undefined;
    });
    return this.#filling;
  }

  /** Queue positions, computed again only after this process has written to the database. */
  positions(generation: number, compute: () => ReadonlyMap<string, number>): ReadonlyMap<string, number> {
    if (this.#positions?.generation !== generation) this.#positions = { generation, byJob: compute() };
    return this.#positions.byJob;
  }
}
