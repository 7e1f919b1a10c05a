/** Jobs whose connected dataset is still being read. They are queued or paused, and are not in the queue. */
import { and, eq, isNotNull, isNull } from "drizzle-orm";
import type { Ctx } from "../../../context.ts";
import { afterCommit, type Db, write } from "../../../platform/db/db.ts";
import { snapshotId } from "../../datasets/schema.ts";
import { liveReading } from "../../datasets/service.ts";
import { type JobRow, trainingJobs } from "../table.ts";
import { note } from "./notes.ts";
import { unfinishedJob } from "./rows.ts";

export const unreadJobs = (db: Db): JobRow[] =>
  db
    .select()
    .from(trainingJobs)
    .where(and(isNull(trainingJobs.completedAt), isNotNull(trainingJobs.reading)))
    .all();

type Facts = Pick<
  JobRow,
  | "datasetId"
  | "snapshotNumber"
  | "numRows"
  | "evalDatasetId"
  | "evalSnapshotNumber"
  | "hyperparameters"
  | "totalSteps"
  | "memoryBytes"
  | "microDivisor"
  | "saveSteps"
> & { snapshotSha256: string | null };

/** Puts the job into the queue with its pinned rows. Nothing happens if the job has ended. */
export function finishReading(ctx: Ctx, id: string, { snapshotSha256, ...facts }: Facts) {
  const now = ctx.clock.now();
  write(ctx.db, (tx) => {
    const job = unfinishedJob(tx, id);
    if (!job?.reading) return;
    const lock = { ...job.lock, snapshot_sha256: snapshotSha256 };
    tx.update(trainingJobs)
      .set({ ...facts, lock, reading: null, updatedAt: now })
      .where(eq(trainingJobs.id, id))
      .run();
    for (const [datasetId, before, number] of [
      [facts.datasetId, job.snapshotNumber, facts.snapshotNumber],
      [facts.evalDatasetId, job.evalSnapshotNumber, facts.evalSnapshotNumber],
    ] as const) {
      if (datasetId === null || before !== null || number === null) continue;
      const snapshot_id = snapshotId(number);
      const message = `The dataset ${datasetId} was read as ${snapshot_id}`;
      note(tx, job, now, {
        level: "info",
        type: "dataset.read",
        message,
        data: { dataset_id: datasetId, snapshot_id },
      });
    }
    afterCommit(tx, () => ctx.state.trainingJobs.changes.notify(id));
  });
}

/** What the job reads now, for its record. `progress` is null while the size of the source is unknown. */
export type Load = { stage: "reading_dataset"; progress: number | null; reason: string };

/** Null if the job reads nothing. */
export function loadOf(ctx: Pick<Ctx, "db">, job: JobRow): Load | null {
  const id = job.snapshotNumber === null && job.datasetId !== null ? job.datasetId : job.evalDatasetId;
  if (!job.reading || job.completedAt !== null || id === null) return null;
  const reading = liveReading(ctx, id);
  const counted = reading?.totalRows ?? null;
  const progress = counted === null || counted === 0 ? null : Math.min(1, (reading?.rows ?? 0) / counted);
  const rows = reading ? `: ${reading.rows}${counted === null ? "" : ` of ${counted}`} rows so far` : "";
  return { stage: "reading_dataset", progress, reason: `reads the dataset ${id}${rows}` };
}
