/** Checks the column that KTO learns from, before a job is queued. The trainer checks the rows after the first ones. */
import type { Ctx } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";
import { isRow, labelFault } from "../../../lib/rows/format.ts";
import { liveRows } from "../../../platform/rows/live.ts";
import { mustHold, pathFor } from "../../datasets/stream/files.ts";
import type { DatasetRow, SnapshotRow } from "../../datasets/table.ts";

const MOST_CHECKED = 1000;

export async function mustHaveLabels(
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
