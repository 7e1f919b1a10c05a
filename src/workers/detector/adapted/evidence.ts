/** Collects what the last layer of each model reads, for the file and for a re-encoded copy. */

import type { Evidence, ModelEvidence, ModelName } from "../../protocol_detector.ts";
import { imageLogit, judgeImage } from "../calibration.ts";
import { type Results, WHOLE } from "../messages.ts";
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
    const seenWhole = calibration?.whole && results[WHOLE];
    if (!calibration || "error" in result || (seenWhole && "error" in seenWhole)) return [];
    const features = result.features && meanRow(result.features, result.logits.length);
    const answers = { logits: result.logits, features, whole: seenWhole?.logits[0] };
    const { score } = judgeImage(answers, calibration);
    // Features are means over crops, so they can replace crops only where the logits are averaged too, and count.
    const counts = calibration.pooling.kind === "mean" && calibration.whole?.crops !== 0;
    return [[name, { logit: imageLogit(answers, calibration), score, features: (counts && features) || [] }]];
  });
  return Object.fromEntries(entries);
}

export function rowOf(features: Float32Array, rows: number, index: number): Float32Array {
  const width = features.length / rows;
  return features.subarray(index * width, (index + 1) * width);
}

export function meanRow(features: Float32Array, rows: number): number[] {
  const width = features.length / rows;
  return Array.from({ length: width }, (_, column) => {
    let sum = 0;
    for (let row = 0; row < rows; row++) sum += features[row * width + column]!;
    return sum / rows;
  });
}
