/** The order in which queued jobs start. Pure. */

import { LONGEST_WAIT_MS } from "../policy.ts";
import type { JobRow } from "../table.ts";
import { Heap } from "./heap.ts";

export type Waiting = Pick<JobRow, "id" | "workspaceId" | "priority" | "queuedAt" | "notBefore" | "region">;

/** A job and how many jobs its workspace runs, those that start before it included. */
export type Turn = { job: Waiting; held: number };

/** Below zero: `a` starts first. Workspaces that run fewer jobs go first, then the job that was queued first. */
export const compareTurns = (a: Turn, b: Turn): number =>
  a.held - b.held || a.job.queuedAt - b.job.queuedAt || (a.job.id < b.job.id ? -1 : 1);

/**
 * Jobs in the order in which they start: higher priority first, then by `compareTurns`. Each job that is taken counts as
 * one that its workspace runs. Lazy: the first k of n jobs cost O(n + k log n), all of them O(n log n).
 * `running`: the workspace of each running job.
 */
export function* inOrder<T extends Waiting>(
  queue: Iterable<T>,
  running: readonly string[],
  now: number,
  compare: (a: Turn, b: Turn) => number = compareTurns,
): Generator<T, void> {
  const held = new Map<string, number>();
  for (const workspaceId of running) held.set(workspaceId, (held.get(workspaceId) ?? 0) + 1);
  const byPriority = grouped(queue, now);
  for (const priority of [...byPriority.keys()].sort((a, b) => b - a)) {
    const own = byPriority.get(priority) as Map<string, T[]>;
    const lines = [...own].map(([workspaceId, jobs]) => {
      const line = new Heap(jobs, (a, b) => compare({ job: a, held: 0 }, { job: b, held: 0 }));
      return { workspaceId, line, held: held.get(workspaceId) ?? 0, job: line.first() as T };
    });
    const next = new Heap(lines, compare);
    for (let first = next.first(); first; first = next.first()) {
      const job = first.line.take() as T;
      held.set(first.workspaceId, ++first.held);
      const following = first.line.first();
      if (following) {
        first.job = following;
        next.firstChanged();
      } else next.take();
      yield job;
    }
  }
}

/** A time beyond the longest wait was set while the clock was ahead: the job is due. */
const isWaiting = ({ notBefore }: Waiting, now: number) => notBefore > now && notBefore <= now + LONGEST_WAIT_MS;

/** Jobs that may start at `now`, by priority and workspace. */
function grouped<T extends Waiting>(queue: Iterable<T>, now: number): Map<number, Map<string, T[]>> {
  const byPriority = new Map<number, Map<string, T[]>>();
  for (const job of queue) {
    if (isWaiting(job, now)) continue;
    const own = byPriority.get(job.priority) ?? new Map<string, T[]>();
    byPriority.set(job.priority, own);
    const line = own.get(job.workspaceId);
    if (line) line.push(job);
    else own.set(job.workspaceId, [job]);
  }
  return byPriority;
}
