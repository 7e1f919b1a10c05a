import { CATALOG, type EventType } from "../../../../events/catalog.ts";
import { emit } from "../../../../events/emit.ts";
import { transition } from "../../../../events/lifecycle.ts";
import { newId } from "../../../../lib/ids.ts";
import type { Tx } from "../../../../platform/db/db.ts";
import { type Action, machine, report } from "../machine.ts";
import { type EVENT_LEVELS, type JobRow, trainingEvents, type trainingJobs } from "../table.ts";

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
export const note = (tx: Tx, job: Pick<JobRow, "id" | "workspaceId">, now: number, fields: Note) =>
  insert(tx, job, now, { id: newId("evt", now), ...fields });

function insert(
  tx: Tx,
  job: Pick<JobRow, "id" | "workspaceId">,
  now: number,
  { data = {}, ...rest }: Note & { id: string },
) {
  const row = { jobId: job.id, workspaceId: job.workspaceId, data, createdAt: now, ...rest };
  tx.insert(trainingEvents).values(row).run();
}

type Patch = Partial<typeof trainingJobs.$inferInsert>;
type Step = { id: string; action: Action; now: number; patch?: Patch };

/**
 * Changes the status of a job. The line in the history and the event of the workspace have the same id and the same
 * data, so that a reader of both counts the change once. Undefined if the status does not allow the action.
 */
export function step(tx: Tx, { id, action, now, patch }: Step, fields: Omit<Note, "type">): JobRow | undefined {
  const eventId = newId("evt", now);
  const row = transition(tx, machine, action, { id, now, eventId }, patch);
  if (!row) return undefined;
  const { data, ...rest } = fields;
  const type = machine.steps[action][2];
  if (type) insert(tx, row, now, { id: eventId, type, ...rest, data: { ...dataOf(type, row), ...data } });
  return row;
}

/** The first line of the history, with the event of the workspace under the same id. */
export function noteCreated(tx: Tx, job: JobRow, now: number) {
  const type = "job.created";
  const id = emit(tx, type, { workspaceId: job.workspaceId, now }, report(job));
  insert(tx, job, now, { id, level: "info", type, message: "Created and queued", data: dataOf(type, job) });
}

/** The same data that the event has. */
const dataOf = (type: EventType, job: JobRow): Record<string, unknown> => CATALOG[type].data.parse(report(job));
