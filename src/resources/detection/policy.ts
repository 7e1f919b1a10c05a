/** Pure decisions: what a plan allows, which models score a file, and when credit runs low. */
import { AppError } from "../../lib/errors.ts";
import {
  AUDIO_MODELS,
  IMAGE_MODELS,
  MODELS,
  type ModelName,
  type ModelResult,
  type Scored,
} from "../../workers/protocol_detector.ts";
import { nextMonthStart } from "../money/billing/months.ts";

export const PLANS = ["free", "pro", "enterprise"] as const;
export type Plan = (typeof PLANS)[number];
/** 0 means no limit. */
export type Allowance = { perSecond: number; perMonth: number };

type Settings = {
  default_plan: Plan;
  plans: readonly string[];
  enterprise_per_second: number;
  enterprise_per_month: number;
};

/**
 * `plans` is checked when the settings are read: `<name or id>=<plan>`. An entry with the id comes before one with the
 * name. Only the operator chooses names, so a tenant cannot change which entry applies to it.
 */
export function planOf({ default_plan, plans }: Settings, workspace: { id: string; name: string }): Plan {
  const entries = plans.map((text) => [text.slice(0, text.lastIndexOf("=")), text.slice(text.lastIndexOf("=") + 1)]);
  const entry = [workspace.id, workspace.name].flatMap((key) => entries.filter(([name]) => name === key)).at(0);
  return entry === undefined ? default_plan : (entry[1] as Plan);
}

export function allowanceOf(settings: Settings, plan: Plan): Allowance {
  if (plan === "free") return { perSecond: 10, perMonth: 1_000 };
  if (plan === "pro") return { perSecond: 100, perMonth: 50_000 };
  return { perSecond: settings.enterprise_per_second, perMonth: settings.enterprise_per_month };
}

/** Seconds until the monthly quota starts anew. */
export const untilNextMonth = (ms: number): number => Math.ceil((nextMonthStart(ms) - ms) / 1000);

/** The models that a request names, in their order, each once. */
export function namedModels(names: readonly string[]): ModelName[] {
  const models: readonly string[] = MODELS;
  for (const name of names)
    if (!models.includes(name))
      throw new AppError("unknown_model", `There is no model ${name.slice(0, 80)}. Choose among ${MODELS.join(", ")}`);
  return [...new Set(names)] as ModelName[];
}

export const READ_HERE = "Send a JPEG, PNG, WebP or GIF image, or a WAV, FLAC or MP3 clip";

type Kind = "image" | "audio";
const modelsOf = (kind: Kind): readonly ModelName[] => (kind === "image" ? IMAGE_MODELS : AUDIO_MODELS);

/** The models to run. If the request names none: the workspace's defaults that fit, or the first model that fits. */
export function modelsFor(kind: Kind, named: readonly ModelName[], defaults: readonly ModelName[]): ModelName[] {
  const able = modelsOf(kind);
  const fitting = (models: readonly ModelName[]) => models.filter((model) => able.includes(model));
  if (named.length === 0) return fitting(defaults).length > 0 ? fitting(defaults) : [...able.slice(0, 1)];
  if (fitting(named).length > 0) return [...named];
  const takes = named.map((model) => `${model} takes ${modelsOf("image").includes(model) ? "images" : "speech"}`);
  const file = kind === "image" ? "an image" : "audio";
  throw new AppError("unsupported_format", `The file is ${file}, but ${takes.join(", ")}. Name a model that takes it`, {
    more: { model_results: publicResults(divide(kind, named).unfit) },
  });
}

const NO_SCORE = 0.5;

/** The results as callers see them: a model without a score has a placeholder. */
export const publicResults = (models: Scored["models"]) =>
  Object.fromEntries(
    Object.entries(models).map(([name, each]) => [name, { ...each, score: each.score ?? NO_SCORE }]),
  ) as Partial<Record<ModelName, ModelResult & { score: number }>>;

export const failedResults = (models: readonly ModelName[], error: string): Scored["models"] =>
  Object.fromEntries(models.map((model) => [model, { score: null, status: "error", latency_ms: 0, error }]));

/** Splits the models into those that can score the file and the results of the others, which are errors. */
export function divide(kind: Kind, models: readonly ModelName[]) {
  const able = modelsOf(kind);
  const error = kind === "image" ? "The model takes speech, not images" : "The model takes images, not speech";
  return {
    fitting: models.filter((model) => able.includes(model)),
    unfit: failedResults(
      models.filter((model) => !able.includes(model)),
      error,
    ),
  };
}

const LOW_PERCENT = [20, 5] as const;
/** `threshold`: percent of the whole credit. */
export type Alert = { event: "credits.low" | "credits.exhausted"; threshold: number };

/** The alerts for a balance that falls. Each threshold alerts once, when it is crossed. */
export function alertsOf(total: number, before: number, after: number): Alert[] {
  const low = LOW_PERCENT.filter((percent) => before > (total * percent) / 100 && after <= (total * percent) / 100);
  return [
    ...low.map((threshold): Alert => ({ event: "credits.low", threshold })),
    ...(before > 0 && after <= 0 ? [{ event: "credits.exhausted", threshold: 0 } as const] : []),
  ];
}
