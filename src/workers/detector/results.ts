/** Turns the logits of one or more views into the result of each model. */

import type { ModelName, ModelResult } from "../protocol_detector.ts";
import { calibrate } from "./calibration.ts";
import type { Results } from "./messages.ts";
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
  let [score, ms] = [0, 0];
  for (const frame of frames) {
    const result = frame[name];
    if (!result) return failure(`${name} gave no answer`, ms);
    ms += result.ms;
    if ("error" in result) return failure(result.error, ms);
    try {
      score = Math.max(score, calibrate(result.logits, model.calibration));
    } catch (error) {
      return failure(error instanceof Error ? error.message : String(error), ms);
    }
  }
  return { score, status: "success", latency_ms: ms, error: null };
}
