/** The rows of a job: pins its snapshots. A connected dataset is read into a snapshot first, by `reading.ts`. */

import type { Ctx } from "../../../../context.ts";
import { AppError } from "../../../../lib/errors.ts";
import { isRow, labelFault } from "../../../../lib/rows/format.ts";
import type { Credentials } from "../../../../lib/source.ts";
import { liveRows } from "../../../../platform/rows/live.ts";
import { claim } from "../../../data/datasets/connected/resolve.ts";
import * as datasets from "../../../data/datasets/service.ts";
import { mustHold, pathFor } from "../../../data/datasets/stream/files.ts";
import * as snapshots from "../../../data/datasets/stream/snapshots.ts";
import type { DatasetRow, SnapshotRow } from "../../../data/datasets/table.ts";
import type { JobRow } from "../table.ts";
import { renaming } from "./faults.ts";
import { FORMATS, mustSuit } from "./references.ts";
import type { Rows } from "./sizing.ts";

const MOST_CHECKED = 1000; // rows whose label is checked before the job is queued

export type JobRows = { train: Rows | undefined; evaluation: Rows | undefined };

type Pointer = "/dataset" | "/eval_dataset";
/** `anyFormat`: a data resolver makes the rows suit the method. */
type Reader = { jobId: string; workspaceId: string; method: JobRow["method"]; anyFormat: boolean };
type References = { dataset?: string | undefined; eval_dataset?: string | null | undefined };

/** Pins the rows that are there. The rows of a source that must be read first have no snapshot number. */
export async function pinPresent(ctx: Ctx, reader: Reader, { dataset, eval_dataset }: References): Promise<JobRows> {
  const present = async (reference: string, param: Pointer) =>
    unread(ctx, reader, reference) ?? (await pin(ctx, reader, { reference, param, credentials: {} }));
  return {
    train: dataset === undefined ? undefined : await present(dataset, "/dataset"),
    evaluation: eval_dataset ? mustHaveRows(await present(eval_dataset, "/eval_dataset")) : undefined,
  };
}

type Access = { credentials: Credentials; signal: AbortSignal };

/** Reads connected sources, then pins all rows. May take hours. */
export async function readAndPin(ctx: Ctx, job: JobRow, access: Access): Promise<JobRows> {
  const { id: jobId, workspaceId, method, resolver } = job;
  const reader = { jobId, workspaceId, method, anyFormat: resolver !== null };
  const read = (id: string, number: number | null, param: Pointer) =>
    pin(ctx, reader, { reference: number === null ? id : `${id}@snap-${number}`, param, ...access });
  const { datasetId, evalDatasetId } = job;
  return {
    train: datasetId === null ? undefined : await read(datasetId, job.snapshotNumber, "/dataset"),
    evaluation:
      evalDatasetId === null
        ? undefined
        : mustHaveRows(await read(evalDatasetId, job.evalSnapshotNumber, "/eval_dataset")),
  };
}

/** The rows of a source before it is read. The last reading is the best estimate. Undefined if it is no source. */
function unread(ctx: Ctx, { workspaceId, method }: Reader, reference: string): Rows | undefined {
  const [id = "", name = "latest"] = reference.split("@");
  const dataset = datasets.find(ctx, workspaceId, id);
  if (!dataset?.source || name !== "latest") return undefined;
  const rows = Math.max(1, snapshots.newest(ctx, id)?.rowCount ?? 1);
  const format = dataset.format ?? FORMATS[method][0] ?? null;
  return { datasetId: id, snapshotNumber: null, sha256: null, rows, format };
}

type PinRequest = { reference: string; param: Pointer; credentials: Credentials; signal?: AbortSignal };

async function pin(ctx: Ctx, reader: Reader, { reference, param, ...access }: PinRequest): Promise<Rows | undefined> {
  const renames = { "/dataset": param, id: param };
  const options = { ...access, jobId: reader.jobId };
  const { dataset, snapshot } = await renaming(renames, () => claim(ctx, reader.workspaceId, reference, options));
  const row = datasets.current(ctx, dataset.id); // reading a source may have set its format
  if (!row) return undefined;
  if (!reader.anyFormat) {
    mustSuit(reader.method, row, param);
    if (reader.method === "kto") await mustHaveLabels(ctx, row, snapshot, param);
  }
  const { number, rowCount, sha256 } = snapshot;
  return { datasetId: row.id, snapshotNumber: number, sha256, rows: rowCount, format: row.format };
}

function mustHaveRows(rows: Rows | undefined): Rows | undefined {
  if (rows?.rows === 0) throw new AppError("schema", "eval_dataset: has no rows", { param: "/eval_dataset" });
  return rows;
}

/** The columns of a job's row that name its rows. */
export const columnsOf = ({ train, evaluation }: JobRows) => ({
  datasetId: train?.datasetId ?? null,
  snapshotNumber: train?.snapshotNumber ?? null,
  numRows: train && train.snapshotNumber !== null ? train.rows : null,
  evalDatasetId: evaluation?.datasetId ?? null,
  evalSnapshotNumber: evaluation?.snapshotNumber ?? null,
});

export const isUnread = ({ train, evaluation }: JobRows): boolean =>
  train?.snapshotNumber === null || evaluation?.snapshotNumber === null;

/** Checks the column that KTO learns from, before a job is queued. The trainer checks the rows after the first ones. */
async function mustHaveLabels(
  ctx: Ctx,
  dataset: DatasetRow,
  { number, headRow }: Pick<SnapshotRow, "number" | "headRow">,
  param: "/dataset" | "/eval_dataset",
) {
  if (headRow === 0) return;
  const rows = mustHold(ctx, pathFor(ctx, dataset, number));
  try {
    const { entries } = await liveRows(rows.file, 0, MOST_CHECKED, headRow);
    entries.forEach(({ text }, index) => {
      const row: unknown = JSON.parse(text ?? "null");
      const fault = isRow(row) ? labelFault(row) : undefined;
      if (!fault) return;
      const message = `${param.slice(1)}: kto cannot use row ${index + 1} of ${dataset.id}: ${fault.message}`;
      throw new AppError("schema", message, { param });
    });
  } finally {
    rows.release();
  }
}
