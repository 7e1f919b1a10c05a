/** Counters of detections: single ones and those of batches. */
import { serviceCodeOf } from "../../http/answer/service_errors.ts";
import { ensembleOf } from "../../lib/detection/tiers.ts";
import type { AppError } from "../../lib/errors.ts";
import { afterCommit, type Db, type Tx } from "../../platform/db/db.ts";
import { counter } from "../../platform/metrics.ts";
import type { DetectionRow } from "./table.ts";

const detections = counter("verk_detections_total", "Detections, by prediction and by whether the result was cached", [
  "prediction",
  "cached",
]);
const failed = counter("verk_detection_failures_total", "Files without a score, by error code", ["code"]);

export function countMade(tx: Tx, { workspaceId, scored, prior }: DetectionRow, cached: boolean) {
  const prediction = ensembleOf(scored, prior)?.prediction ?? "";
  afterCommit(tx, () => detections.add(tx, workspaceId, [prediction, String(cached)]));
}

export const countFailed = (db: Db | Tx, workspaceId: string, { code }: AppError) =>
  failed.add(db, workspaceId, [serviceCodeOf(code)]);
