/** Detections in numbers, single ones and those of batches alike. */
import { serviceCodeOf } from "../../http/answer/service_errors.ts";
import type { AppError } from "../../lib/errors.ts";
import { afterCommit, type Db, type Tx } from "../../platform/db/db.ts";
import { counter } from "../../platform/metrics.ts";
import { ensembleOf } from "./policy.ts";
import type { DetectionRow } from "./table.ts";

const made = counter("verk_detections_total", "Detections, by what they say, and whether it was known already", [
  "prediction",
  "cached",
]);
const failed = counter("verk_detection_failures_total", "Files that got no score, by the code of the error", ["code"]);

export function countMade(tx: Tx, { workspaceId, scored }: DetectionRow, cached: boolean) {
  const prediction = ensembleOf(scored)?.prediction ?? "";
  afterCommit(tx, () => made.add(tx, workspaceId, [prediction, String(cached)]));
}

export const countFailed = (db: Db | Tx, workspaceId: string, { code }: AppError) =>
  failed.add(db, workspaceId, [serviceCodeOf(code)]);
