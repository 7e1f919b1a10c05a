/** The order in which queued jobs start. Pure. */

import { LONGEST_WAIT_MS } from "../policy.ts";
import type { JobRow } from "../table.ts";
import { Heap } from "./heap.ts";

export type Waiting = Pick<JobRow, "id" | "workspaceId" | "priority" | "queuedAt" | "notBefore" | "region">;

/** A job, how many jobs its workspace runs, those that start before it included, and the number of its last start. */
export type Turn = { job: Waiting; held: number; servedAt: number };

/** Below zero: `a` starts first. Of one workspace: the higher priority, then the job that was queued first. */
const compareJobs = (a: Waiting, b: Waiting): number =>
  b.priority - a.priority || a.queuedAt - b.queuedAt || (a.id < b.id ? -1 : 1);

/** Workspaces that run fewer jobs go first, then those whose last start is longest ago. */
export const compareTurns = (a: Turn, b: Turn): number =>
  a.held - b.held || a.servedAt - b.servedAt || compareJobs(a.job, b.job);

/**
 * Jobs in the order in which they start. Workspaces take turns by `compareTurns`: a priority moves a job ahead of others
 * of its own workspace, so no workspace can shut the others out. Each job that is taken counts as one that its workspace
 * runs. Lazy: the first k of n jobs cost O(n + k log n), all of them O(n log n).
 * `running`: the workspace of each running job. `lastStarts`: workspace → the number of its last start.
 */
export function* inOrder<T extends Waiting>(
  queue: Iterable<T>,
  { running, lastStarts }: { running: readonly string[]; lastStarts?: ReadonlyMap<string, number> },
  now: number,
  compare: (a: Turn, b: Turn) => number = compareTurns,
): Generator<T, void> {
  const held = new Map<string, number>();
  for (const workspaceId of running) held.set(workspaceId, (held.get(workspaceId) ?? 0) + 1);
  const due = [...queue].filter((job) => !isWaiting(job, now));
  const lines = [...Map.groupBy(due, ({ workspaceId }) => workspaceId)].map(([workspaceId, jobs]) => {
    const none = { held: 0, servedAt: 0 };
    const line = new Heap(jobs, (a, b) => compare({ job: a, ...none }, { job: b, ...none }));
    const servedAt = lastStarts?.get(workspaceId) ?? 0;
    return { line, held: held.get(workspaceId) ?? 0, servedAt, job: line.first() as T };
  });
  const next = new Heap(lines, compare);
  for (let first = next.first(); first; first = next.first()) {
    const job = first.line.take() as T;
    first.held++;
    const following = first.line.first();
    if (following) {
      first.job = following;
      next.firstChanged();
    } else next.take();
    yield job;
  }
}

/** A time beyond the longest wait was set while the clock was ahead: the job is due. */
const isWaiting = ({ notBefore }: Waiting, now: number) => notBefore > now && notBefore <= now + LONGEST_WAIT_MS;
