/** The first stage of a job on a connected dataset, as callers see it. */
import type { Ctx } from "../../../context.ts";
import { liveReading } from "../../datasets/service.ts";
import type { JobRow } from "../table.ts";

/** The reading that a job waits for. `progress` is null while the size of the source is unknown. */
export type Load = { stage: "reading_dataset"; progress: number | null; reason: string };

const RESOLVING = "runs the data resolver over the rows of the dataset";

/** Null if the job reads nothing. */
export function loadOf(ctx: Pick<Ctx, "db">, job: JobRow): Load | null {
  const isUnread = job.snapshotNumber === null && job.datasetId !== null;
  const id = isUnread || job.resolver ? job.datasetId : job.evalDatasetId;
  if (!job.reading || job.completedAt !== null || id === null) return null;
  if (!isUnread && job.resolver) return { stage: "reading_dataset", progress: null, reason: RESOLVING };
  const reading = liveReading(ctx, id);
  const counted = reading?.totalRows ?? null;
  const progress = counted === null || counted === 0 ? null : Math.min(1, (reading?.rows ?? 0) / counted);
  const rows = reading ? `: ${reading.rows}${counted === null ? "" : ` of ${counted}`} rows so far` : "";
  return { stage: "reading_dataset", progress, reason: `reads the dataset ${id}${rows}` };
}
