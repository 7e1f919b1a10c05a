/** The first stage of a job whose model or dataset is not here yet, as callers see it. */
import { eq, sql } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { prepared } from "../../../../platform/db/db.ts";
import { liveReading } from "../../../data/datasets/service.ts";
import { models } from "../../../serving/models/table.ts";
import type { JobRow } from "../table.ts";

/** The input that a job waits for. `progress` is null while it is unknown. */
export type Load = { stage: "fetching_model" | "reading_dataset"; progress: number | null; reason: string };

const RESOLVING = "runs the data resolver over the rows of the dataset";

/** Null if the job waits for neither. */
export function loadOf(ctx: Pick<Ctx, "db">, job: JobRow): Load | null {
  if (!job.reading || job.completedAt !== null) return null;
  return modelLoad(ctx, job) ?? datasetLoad(ctx, job);
}

const modelById = prepared((db) => {
  const { id, status, progress, shape } = models;
  return db
    .select({ status, progress, shape })
    .from(models)
    .where(eq(id, sql.placeholder("id")))
    .prepare();
});

function modelLoad({ db }: Pick<Ctx, "db">, job: JobRow): Load | null {
  const model = job.baseModelId && modelById(db).get({ id: job.baseModelId });
  if (!model || (model.shape !== null && hasRowsToRead(job))) return null;
  const reason =
    model.status === "downloading"
      ? `downloads the model ${job.baseModel} (${Math.floor((model.progress ?? 0) * 100)} %)`
      : `waits for the model ${job.baseModel}`;
  return { stage: "fetching_model", progress: model.progress, reason };
}

const hasRowsToRead = ({ datasetId, snapshotNumber, evalDatasetId, evalSnapshotNumber, resolver }: JobRow) =>
  resolver !== null ||
  (datasetId !== null && snapshotNumber === null) ||
  (evalDatasetId !== null && evalSnapshotNumber === null);

function datasetLoad(ctx: Pick<Ctx, "db">, job: JobRow): Load | null {
  const isUnread = job.snapshotNumber === null && job.datasetId !== null;
  const id = isUnread || job.resolver ? job.datasetId : job.evalDatasetId;
  if (id === null) return null;
  if (!isUnread && job.resolver) return { stage: "reading_dataset", progress: null, reason: RESOLVING };
  const reading = liveReading(ctx, id);
  const counted = reading?.totalRows ?? null;
  const progress = counted === null || counted === 0 ? null : Math.min(1, (reading?.rows ?? 0) / counted);
  const rows = reading ? `: ${reading.rows}${counted === null ? "" : ` of ${counted}`} rows so far` : "";
  return { stage: "reading_dataset", progress, reason: `reads the dataset ${id}${rows}` };
}
