/** Collects what the last layer of each model reads, for the file and for a re-encoded copy. */
import { calibratePooled, pool } from "../../../lib/detection/calibration.ts";
import type { Evidence, ModelEvidence, ModelName } from "../../protocol_detector.ts";
import type { Results } from "../messages.ts";
import type { Models } from "../models.ts";

/** The re-encoded view that an adaptation must also be right on: in it both labels have one format. */
export const EQUALISED_VIEW = "jpeg_80";

export function evidenceOf(models: Models, views: readonly { view: string; results: Results }[]): Evidence {
  return {
    bases: Object.fromEntries([...models.found].map(([name, { base }]) => [name, base])),
    views: views.map(({ view, results }) => ({ view, models: seenBy(models, results) })),
  };
}

function seenBy(models: Models, results: Results): Partial<Record<ModelName, ModelEvidence>> {
  const entries = Object.entries(results).flatMap(([name, result]) => {
    const calibration = models.found.get(name as ModelName)?.calibration;
    if (!calibration || "error" in result) return [];
    const logit = pool(result.logits, calibration.pooling);
    const score = calibratePooled(logit, calibration);
    return [[name, { logit, score, features: meanRow(result.features, result.logits.length) }]];
  });
  return Object.fromEntries(entries);
}

function meanRow(features: Float32Array | undefined, rows: number): number[] {
  if (!features) return [];
  const width = features.length / rows;
  return Array.from({ length: width }, (_, column) => {
    let sum = 0;
    for (let row = 0; row < rows; row++) sum += features[row * width + column]!;
    return sum / rows;
  });
}
