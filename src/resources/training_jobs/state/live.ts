/** What runs now, and what only this process knows of it. It dies with the process; rows and files do not. */
import type { Ctx } from "../../../context.ts";
import { oncePer } from "../../../lib/once_per.ts";
import type { Db } from "../../../platform/db/db.ts";
import { Semaphore } from "../../../platform/semaphore.ts";

/** A process, or a command in a jail, that works for a job. */
export type Run = {
  readonly jobId: string;
  readonly workspaceId: string;
  /** Asks it to write down what it has and to end; it may take its time. Once is enough. */
  save: () => void;
  stop: (reason: string) => Promise<unknown>;
  /** Resolves when it has ended and its end has been dealt with. */
  readonly over: Promise<void>;
  /** When it was first asked to end. */
  endingAt: number | undefined;
};

type Live = {
  readonly runs: Map<string, Run>;
  /** Memory asked for, no process yet. */
  readonly launching: Set<string>;
  /** Jobs that stand in the ledger's queue. */
  readonly queued: Set<string>;
  /** Goes through the queue of jobs; one at a time, so that no place is given twice. */
  filling: Promise<void> | undefined;
  /** The export that is being made. */
  exporting: Promise<void> | undefined;
  /** Logs that are on their way into the storage. */
  readonly storing: Set<string>;
};

export const liveOf = oncePer(
  (_db: Db): Live => ({
    runs: new Map(),
    launching: new Set(),
    queued: new Set(),
    filling: undefined,
    exporting: undefined,
    storing: new Set(),
  }),
);

export const isAtWork = (ctx: Pick<Ctx, "db">, id: string): boolean => {
  const { runs, launching } = liveOf(ctx.db);
  return runs.has(id) || launching.has(id);
};

/** The state of training jobs that lives in this process (`ctx.state.trainingJobs`). */
export class TrainingJobsState {
  readonly runs = new Map<string, Run>();
  /** Jobs that hold memory and have no process yet. */
  readonly launching = new Set<string>();
  /** Jobs that wait in the memory ledger's queue. */
  readonly queued = new Set<string>();
  /** Set while the queue of jobs is worked through, so that no memory is given twice. */
  filling: Promise<void> | undefined;
  exporting: Promise<void> | undefined;
  /** Jobs whose logs are on their way into the storage. */
  readonly storing = new Set<string>();
  /** Jobs whose rows are not written yet: the sweep leaves their files alone. */
  readonly admitting = new Set<string>();
  /** Job → functions to call when its log or its status has changed. */
  readonly readers = new Map<string, Set<() => void>>();
  /** Positions in the queue, valid until this process writes again. */
  positions: { generation: number; of: ReadonlyMap<string, number> } | undefined;
  /** Dry runs at the same time: each loads a model. */
  readonly previews = new Semaphore({ permits: 2, maxWaiting: 64 });
}
