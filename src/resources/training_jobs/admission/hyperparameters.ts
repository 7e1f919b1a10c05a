/** Reads the hyperparameters and LoRA settings of a request strictly, then resolves them for the model and the rows. */
import type { ModelShape } from "../../../lib/gguf/shape.ts";
import { jsonPointer } from "../../../lib/json/pointer.ts";
import type { Format } from "../../../lib/rows/format.ts";
import { nearest } from "../../../lib/text/nearest.ts";
import {
  type HyperparameterInput,
  type Method,
  MOST_PROBLEMS,
  type Problem,
  readHyperparameters,
} from "../../../lib/training/hyperparameters.ts";
import { LoraSettings } from "../../../lib/training/lora.ts";
import { stepsOf } from "../../../lib/training/plan.ts";
import { type Resolved, resolveHyperparameters } from "../../../lib/training/resolve.ts";
import type { JobRequest } from "./clone.ts";
import type { Faults } from "./faults.ts";

const refuseAll = (faults: Faults, problems: readonly Problem[]) => {
  for (const { path, message } of problems) faults.refuse(jsonPointer(["hyperparameters", ...path]), message);
};

export function readGiven<M extends Method>(
  method: M,
  request: JobRequest,
  faults: Faults,
): HyperparameterInput<M> | undefined {
  const read = readHyperparameters(method, request.hyperparameters);
  if (read.ok) return read.given;
  refuseAll(faults, read.problems);
  return undefined;
}

/** Undefined if the settings are wrong; null trains all weights. */
export function readLora({ lora }: JobRequest, faults: Faults): LoraSettings | null | undefined {
  if (lora === null) return null;
  const read = LoraSettings.safeParse(lora ?? {});
  if (read.success) return read.data;
  for (const issue of read.error.issues.slice(0, MOST_PROBLEMS)) {
    if (issue.code !== "unrecognized_keys") faults.refuse(jsonPointer(["lora", ...issue.path]), issue.message);
    else
      for (const key of issue.keys.slice(0, MOST_PROBLEMS)) {
        const close = nearest(key, Object.keys(LoraSettings.shape));
        faults.refuse(
          jsonPointer(["lora", key.slice(0, 80)]),
          `unknown${close === undefined ? "" : `; did you mean ${close}?`}`,
        );
      }
  }
  return undefined;
}

type Facts = { method: Method; lora: LoraSettings | null; shape: ModelShape; rows: number; format: Format };
type Resolution = { values: Resolved<Method>; totalSteps: number };

export function resolve(given: HyperparameterInput<Method>, facts: Facts, faults: Faults): Resolution | undefined {
  const { method, shape, rows } = facts;
  const resolution = resolveHyperparameters(method, given, {
    lora: facts.lora !== null,
    rows,
    parameters: shape.parameters,
    contextLength: shape.context_length,
    hasCompletions: facts.format === "completion",
  });
  if (resolution.ok) return { values: resolution.values, totalSteps: stepsOf(method, resolution.values, rows) };
  refuseAll(faults, resolution.problems);
  return undefined;
}
