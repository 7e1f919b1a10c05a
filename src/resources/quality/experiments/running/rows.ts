/** Reads the rows of an experiment's snapshot, in pages. */
import type { Ctx } from "../../../../context.ts";
import { AppError } from "../../../../lib/errors.ts";
import type { Row } from "../../../../lib/rows/format.ts";
import { liveRows } from "../../../../platform/rows/live.ts";
import { snapshotId } from "../../../data/datasets/schema.ts";
import * as datasets from "../../../data/datasets/service.ts";
import { mustHold, pathFor } from "../../../data/datasets/stream/files.ts";
import * as snapshots from "../../../data/datasets/stream/snapshots.ts";
import { type Sample, sampleOf } from "../sample.ts";
import type { ExperimentRow } from "../table.ts";

const PAGE_ROWS = 256;

export type QuestionRow = Sample & { rowId: number; row: Row };

/** Row ids are positions in the log: a row keeps the id of its first version. */
export async function* readRows(ctx: Ctx, experiment: ExperimentRow): AsyncGenerator<QuestionRow[]> {
  const { datasetId, snapshotNumber, referenceField } = experiment;
  const dataset = datasets.current(ctx, datasetId);
  if (!dataset) throw new AppError("resource_not_found", `No dataset ${datasetId}`);
  const snapshot = snapshots.mustGet(ctx, dataset, snapshotId(snapshotNumber));
  for (let left = experiment.rowCount, after = 0; left > 0; ) {
    const rows = mustHold(ctx, pathFor(ctx, dataset, snapshotNumber));
    const page = await liveRows(rows.file, after, Math.min(PAGE_ROWS, left), snapshot.headRow).finally(rows.release);
    const questions = page.entries.flatMap(({ rowId, target, text }): QuestionRow[] => {
      if (text === null) return [];
      const row = JSON.parse(text) as Row;
      return [{ rowId: target ?? rowId, row, ...sampleOf(row, referenceField) }];
    });
    if (questions.length > 0) yield questions;
    const last = page.entries.at(-1);
    if (!last || !page.hasMore) return;
    after = last.rowId;
    left -= page.entries.length;
  }
}
