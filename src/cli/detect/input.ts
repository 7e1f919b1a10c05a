/** The flags that `verk detect` and `verk detect eval` share. */
import { AppError, UsageError } from "../../lib/errors.ts";
import { nearest } from "../../lib/text/nearest.ts";
import type { Versions } from "../../resources/detection/worker.ts";
import { MODELS, type ModelName } from "../../workers/protocol_detector.ts";
import { CONFIG_FLAG, DATA_FLAG } from "../args.ts";
import { INTERRUPTED } from "../interrupt.ts";

export const FLAGS = {
  models: {
    type: "string",
    value: "NAMES",
    doc: "Models whose mean is the score, separated by commas (default: all available)",
  },
  threshold: {
    type: "string",
    value: "SCORE",
    doc: "Threshold from 0 to 1 (default 0.5); exit with 5 if a file scores at least this (not eval)",
  },
  data: DATA_FLAG,
  config: CONFIG_FLAG,
} as const;

/** Exit codes of both commands, because the help of `verk detect` shows one table. */
export const EXITS = {
  0: "every file was scored; eval: figures were computed, maybe without some files; adapt: the adaptation is in use",
  1: "failed: a file could not be scored, or there was no file; eval: a label has no scored file",
  5: "a file scored at least the given --threshold (not eval); adapt: nothing was changed, because it would be worse",
  [INTERRUPTED]: "interrupted",
};

const DEFAULT_THRESHOLD = 0.5;

export function namedModels(text: string | undefined): ModelName[] | undefined {
  const names = text?.split(",").map((name) => name.trim());
  return names && [...new Set(names.map(modelOf))];
}

function modelOf(name: string): ModelName {
  const model = MODELS.find((each) => each === name);
  if (model) return model;
  const close = nearest(name, MODELS);
  const hint = close ? ` Did you mean ${close}?` : "";
  throw new UsageError(`--models: there is no model ${JSON.stringify(name)}.${hint} Models: ${MODELS.join(", ")}.`);
}

/** The named models, or all available ones. A named model that is not available is an error. */
export function chosenModels(
  named: readonly ModelName[] | undefined,
  versions: Versions,
  among: readonly ModelName[] = MODELS,
): readonly ModelName[] {
  const there = among.filter((model) => versions[model] !== undefined);
  const missing = named?.filter((model) => !there.includes(model)) ?? [];
  if (there.length > 0 && missing.length === 0) return named ?? there;
  const all = there.length > 0 ? `Available: ${there.join(", ")}.` : "No models are available.";
  const what = missing.length > 0 ? `${missing.join(", ")} cannot be loaded` : "No detection model can be loaded";
  throw new AppError(
    "detector_unavailable",
    `${what}. ${all} Check detect.models_dir, or use a build that includes the models.`,
  );
}

export function thresholdOf(text: string | undefined): number {
  if (text === undefined) return DEFAULT_THRESHOLD;
  const value = Number(text);
  if (text.trim() !== "" && value >= 0 && value <= 1) return value;
  throw new UsageError(`--threshold: expected a number from 0 to 1, such as 0.85, not ${JSON.stringify(text)}`);
}
