/** Hyperparameters and LoRA settings of a request: read strictly, then resolved with what is known of model and rows. */
import type { ModelShape } from "../../../lib/gguf/shape.ts";
import { jsonPointer } from "../../../lib/json/pointer.ts";
import type { Format } from "../../../lib/rows/format.ts";
import { nearest } from "../../../lib/text/nearest.ts";
import {
  type Given,
  type Method,
  MOST_PROBLEMS,
  type Problem,
  readHyperparameters,
} from "../../../lib/training/hyperparameters.ts";
import { LoraSettings } from "../../../lib/training/lora.ts";
import { stepsOf } from "../../../lib/training/plan.ts";
import { type Resolved, resolveHyperparameters } from "../../../lib/training/resolve.ts";
import type { Wanted } from "./clone.ts";
import type { Faults } from "./faults.ts";

const tell = (faults: Faults, problems: readonly Problem[]) => {
  for (const { path, message } of problems) faults.refuse(jsonPointer(["hyperparameters", ...path]), message);
};

export function readGiven<M extends Method>(method: M, wanted: Wanted, faults: Faults): Given<M> | undefined {
  const read = readHyperparameters(method, wanted.hyperparameters);
  if (read.ok) return read.given;
  tell(faults, read.problems);
  return undefined;
}

/** Undefined: it cannot be read. Null: all weights. */
export function readLora({ lora }: Wanted, faults: Faults): LoraSettings | null | undefined {
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

type Known = { method: Method; lora: LoraSettings | null; shape: ModelShape; rows: number; format: Format };
export type Settled = { values: Resolved<Method>; totalSteps: number };

export function settle(given: Given<Method>, known: Known, faults: Faults): Settled | undefined {
  const { method, shape, rows } = known;
  const resolution = resolveHyperparameters(method, given, {
    lora: known.lora !== null,
    rows,
    parameters: shape.parameters,
    contextLength: shape.context_length,
    hasCompletions: known.format === "completion",
  });
  if (resolution.ok) return { values: resolution.values, totalSteps: stepsOf(method, resolution.values, rows) };
  tell(faults, resolution.problems);
  return undefined;
}
