import { newId } from "../../../lib/ids.ts";
import type { Tx } from "../../../platform/db/db.ts";
import { type EVENT_LEVELS, type JobRow, trainingEvents } from "../table.ts";

export type Note = {
  level: (typeof EVENT_LEVELS)[number];
  type: string;
  message: string;
  data?: Record<string, unknown>;
};

/**
 * Adds a line to the job's history, which people read at `GET /v1/training_jobs/{id}/events`. It belongs to the commit
 * of the change that it describes.
 */
export function note(tx: Tx, job: Pick<JobRow, "id" | "workspaceId">, now: number, { data = {}, ...rest }: Note) {
  const row = { id: newId("evt", now), jobId: job.id, workspaceId: job.workspaceId, data, createdAt: now, ...rest };
  tx.insert(trainingEvents).values(row).run();
}
