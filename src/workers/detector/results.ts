/** Turns the logits of one or more views into the result of each model. */

import { errorText } from "../../lib/error_text.ts";
import type { CropScore, ModelName, ModelResult } from "../protocol_detector.ts";
import { meanRow, rowOf } from "./adapted/evidence.ts";
import { judgeCrop, judgeImage } from "./calibration.ts";
import type { Crop } from "./image/views.ts";
import { type Results, WHOLE } from "./messages.ts";
import type { Models } from "./models.ts";

export type ModelResults = Partial<Record<ModelName, ModelResult>>;

export const failure = (error: string, ms = 0): ModelResult => ({
  score: null,
  status: "error",
  latency_ms: ms,
  error,
});

/** `frames`: of an animation, each with the results of all models. The highest score counts. */
export function judge(models: Models, asked: readonly ModelName[], frames: readonly Results[]): ModelResults {
  return Object.fromEntries(asked.map((name) => [name, judgeModel(models, name, frames)]));
}

function judgeModel(models: Models, name: ModelName, frames: readonly Results[]): ModelResult {
  const model = models.found.get(name);
  if (!model) return failure(models.errors.get(name) ?? `${name} is not loaded`);
  let [best, ms] = [{ score: 0, unlike: false }, 0];
  for (const frame of frames) {
    const result = frame[name];
    if (!result) return failure(`${name} gave no answer`, ms);
    ms += result.ms;
    if ("error" in result) return failure(result.error, ms);
    const whole = model.calibration.whole && frame[WHOLE];
    if (whole) ms += whole.ms;
    if (whole && "error" in whole) return failure(`${WHOLE}: ${whole.error}`, ms);
    try {
      const features = result.features && meanRow(result.features, result.logits.length);
      const judged = judgeImage({ logits: result.logits, features, whole: whole?.logits[0] }, model.calibration);
      if (judged.score >= best.score) best = judged;
    } catch (error) {
      return failure(errorText(error), ms);
    }
  }
  const { tiers, unlike } = model.calibration;
  return {
    score: best.score,
    status: "success",
    latency_ms: ms,
    error: null,
    ...(unlike ? { unlike: best.unlike } : {}),
    ...(tiers ? { ai_from: tiers.ai } : {}),
  };
}

/**
 * The calibrated score of each crop alone, as the mean over the models that answered. Of an animation: the crops of the
 * frame with the highest one.
 */
export function cropScores(models: Models, frames: readonly Results[], crops: readonly Crop[]): CropScore[] {
  const byFrame = frames.map((frame) => crops.map(({ x, y }, i) => ({ x, y, score: cropScore(models, frame, i) })));
  const highest = (scores: readonly { score: number | undefined }[]) =>
    Math.max(...scores.map(({ score }) => score ?? Number.NEGATIVE_INFINITY));
  const [best = []] = byFrame.sort((a, b) => highest(b) - highest(a));
  return best.flatMap(({ x, y, score }) => (score === undefined ? [] : [{ x, y, score }]));
}

/** Undefined: no model has a number for this crop. */
export function cropScore(models: Models, frame: Results, index: number): number | undefined {
  const scores = Object.entries(frame).flatMap(([name, result]) => {
    const calibration = models.found.get(name as ModelName)?.calibration;
    const logit = "logits" in result ? result.logits[index] : undefined;
    if (!calibration || "error" in result || logit === undefined || Number.isNaN(logit)) return [];
    const features = result.features && rowOf(result.features, result.logits.length, index);
    return [judgeCrop(logit, features, calibration)];
  });
  return scores.length === 0 ? undefined : scores.reduce((sum, score) => sum + score, 0) / scores.length;
}
