/** What a plan allows, which models look at a file, what their scores say together, and when credit runs low. Pure. */
import { type Tier, tierOf } from "../../lib/detection/tiers.ts";
import { AppError } from "../../lib/errors.ts";
import { nextMonthStart } from "../../lib/months.ts";
import {
  AUDIO_MODELS,
  IMAGE_MODELS,
  MODELS,
  type ModelName,
  type ModelResult,
  type Scored,
} from "../../workers/protocol_detector.ts";

export const PLANS = ["free", "pro", "enterprise"] as const;
export type Plan = (typeof PLANS)[number];
/** 0: no limit. */
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
  const own = [workspace.id, workspace.name].flatMap((key) => entries.filter(([name]) => name === key)).at(0);
  return own === undefined ? default_plan : (own[1] as Plan);
}

export function allowanceOf(settings: Settings, plan: Plan): Allowance {
  if (plan === "free") return { perSecond: 10, perMonth: 1_000 };
  if (plan === "pro") return { perSecond: 100, perMonth: 50_000 };
  return { perSecond: settings.enterprise_per_second, perMonth: settings.enterprise_per_month };
}

/** Seconds until the quota is fresh. */
export const untilNextMonth = (ms: number): number => Math.ceil((nextMonthStart(ms) - ms) / 1000);

/** Those a request names, in their order, each once. */
export function namedModels(names: readonly string[]): ModelName[] {
  const known: readonly string[] = MODELS;
  for (const name of names)
    if (!known.includes(name))
      throw new AppError("unknown_model", `No model ${name.slice(0, 80)}: there are ${MODELS.join(", ")}`);
  return [...new Set(names)] as ModelName[];
}

export const READ_HERE = "JPEG, PNG, WebP and GIF images and WAV, FLAC and MP3 clips are read here";

type Kind = "image" | "audio";
const takersOf = (kind: Kind): readonly ModelName[] => (kind === "image" ? IMAGE_MODELS : AUDIO_MODELS);

/** Who looks at it. None named: those of the workspace that fit, or the first that does. */
export function modelsFor(kind: Kind, named: readonly ModelName[], defaults: readonly ModelName[]): ModelName[] {
  const takers = takersOf(kind);
  const fitting = (models: readonly ModelName[]) => models.filter((model) => takers.includes(model));
  if (named.length === 0) return fitting(defaults).length > 0 ? fitting(defaults) : [...takers.slice(0, 1)];
  if (fitting(named).length > 0) return [...named];
  const takes = named.map((model) => `${model} takes ${takersOf("image").includes(model) ? "images" : "speech"}`);
  throw new AppError("unsupported_format", `${takes.join(", ")}, and this is ${kind}. ${READ_HERE}`);
}

/** Of those, who can look at it, and what is said of the others. */
export function divide(kind: Kind, models: readonly ModelName[]) {
  const takers = takersOf(kind);
  const error = kind === "image" ? "It takes speech, and this is an image" : "It takes images, and this is speech";
  const unfit: ModelResult = { score: null, status: "error", latency_ms: 0, error };
  const others = models.filter((model) => !takers.includes(model));
  return {
    asked: models.filter((model) => takers.includes(model)),
    unfit: Object.fromEntries(others.map((model) => [model, unfit])) as Scored["models"],
  };
}

export type Ensemble = Tier & { score: number; succeeded: number; total: number };

/** The mean of those that succeeded. Undefined: none did. */
export function ensembleOf({ models }: Pick<Scored, "models">): Ensemble | undefined {
  const results = Object.values(models);
  const scores = results.flatMap(({ status, score }) => (status === "success" && score !== null ? [score] : []));
  if (scores.length === 0) return undefined;
  const score = scores.reduce((sum, each) => sum + each, 0) / scores.length;
  return { ...tierOf(score), score, succeeded: scores.length, total: results.length };
}

const LOW_PERCENT = [20, 5] as const;
/** `threshold`: in percent of the whole credit. */
export type Alert = { event: "credits.low" | "credits.exhausted"; threshold: number };

/** What is to be told when a balance falls: each line once, as it is crossed. */
export function alertsOf(total: number, before: number, after: number): Alert[] {
  const low = LOW_PERCENT.filter((percent) => before > (total * percent) / 100 && after <= (total * percent) / 100);
  return [
    ...low.map((threshold): Alert => ({ event: "credits.low", threshold })),
    ...(before > 0 && after <= 0 ? [{ event: "credits.exhausted", threshold: 0 } as const] : []),
  ];
}
