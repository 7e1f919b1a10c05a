/** The flags that `verk detect` and `verk detect eval` share. */
import { AppError, UsageError } from "../../lib/errors.ts";
import { nearest } from "../../lib/text/nearest.ts";
import { type Config, configFile, loadConfig } from "../../platform/config/config.ts";
import type { Versions } from "../../resources/detection/worker.ts";
import { MODELS, type ModelName } from "../../workers/protocol_detector.ts";
import { CONFIG_FLAG, DATA_FLAG } from "../args.ts";
import { INTERRUPTED } from "../interrupt.ts";

export const FLAGS = {
  models: {
    type: "string",
    value: "NAMES",
    doc: "Whose mean is the score, separated by commas (default: all there are)",
  },
  threshold: {
    type: "string",
    value: "SCORE",
    doc: "From 0 to 1 (default 0.5); with files: exit 5 when one scores so much",
  },
  data: DATA_FLAG,
  config: CONFIG_FLAG,
} as const;

/** One table for both: the help of `verk detect` shows it once. */
export const EXITS = {
  0: "every file was scored; eval: there are figures, maybe without files that could not be scored",
  1: "failed: a file could not be scored, or there was none; eval: none of one of the labels",
  5: "a file's score is at least the --threshold that was given (not eval)",
  [INTERRUPTED]: "interrupted",
};

const DEFAULT_THRESHOLD = 0.5;

/** Unlike commands that work on the data directory this one stays who it is: it reads the caller's files. */
export const settingsHere = ({ config, data }: { config?: string | undefined; data?: string | undefined }): Config =>
  loadConfig({ file: configFile(config), flags: { data_dir: data } });

export function namedModels(text: string | undefined): ModelName[] | undefined {
  const names = text?.split(",").map((name) => name.trim());
  return names && [...new Set(names.map(modelOf))];
}

function modelOf(name: string): ModelName {
  const known = MODELS.find((each) => each === name);
  if (known) return known;
  const close = nearest(name, MODELS);
  const hint = close ? ` Did you mean ${close}?` : "";
  throw new UsageError(`--models: there is no ${JSON.stringify(name)}; there are ${MODELS.join(", ")}.${hint}`);
}

/** Those that are there, unless some were named; one of those that is not there would be missed in silence. */
export function chosenModels(
  named: readonly ModelName[] | undefined,
  versions: Versions,
  among: readonly ModelName[] = MODELS,
): readonly ModelName[] {
  const there = among.filter((model) => versions[model] !== undefined);
  const missing = named?.filter((model) => !there.includes(model)) ?? [];
  if (there.length > 0 && missing.length === 0) return named ?? there;
  const all = there.length > 0 ? `there are ${there.join(", ")}` : "there is none at all";
  const what = missing.length > 0 ? `${missing.join(", ")} cannot be loaded` : "No model can be loaded";
  throw new AppError(
    "detector_unavailable",
    `${what}: ${all}. Look at detect.models_dir, or use a build that has them`,
  );
}

export function thresholdOf(text: string | undefined): number {
  if (text === undefined) return DEFAULT_THRESHOLD;
  const value = Number(text);
  if (text.trim() !== "" && value >= 0 && value <= 1) return value;
  throw new UsageError(`--threshold: expected a number from 0 to 1, such as 0.85, not ${JSON.stringify(text)}`);
}
