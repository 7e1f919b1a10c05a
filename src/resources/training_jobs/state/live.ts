/** What runs now, and what only this process knows of it. It dies with the process; rows and files do not. */
import type { Ctx } from "../../../context.ts";
import { oncePer } from "../../../lib/once_per.ts";
import type { Db } from "../../../platform/db/db.ts";

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
