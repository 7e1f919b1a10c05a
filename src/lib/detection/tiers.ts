/** Maps scores to predictions. A boundary belongs to the higher tier. */
import { type Declaration, type Declared, declarationOf, type Evidence } from "./evidence.ts";

export const PREDICTIONS = ["ai", "likely_ai", "uncertain", "likely_real", "real"] as const;
export type Prediction = (typeof PREDICTIONS)[number];
export const VERDICTS = ["ai_generated", "likely_ai", "uncertain", "likely_real", "real"] as const;
export type Verdict = (typeof VERDICTS)[number];

export type Tier = { prediction: Prediction; verdict: Verdict; isFake: boolean | null; confidence: number };

// biome-ignore format: a table should look like one
const TIERS = [
  [0.85, "ai",          "ai_generated", true],
  [0.55, "likely_ai",   "likely_ai",    true],
  [0.45, "uncertain",   "uncertain",    null],
  [0.15, "likely_real", "likely_real",  false],
  [0,    "real",        "real",         false],
] as const;

/** The lowest score of each prediction, the highest first. */
export const TIER_STARTS: readonly (readonly [start: number, prediction: Prediction])[] = TIERS.map(
  ([start, prediction]) => [start, prediction],
);

export function tierOf(score: number): Tier {
  const tier = TIERS.find(([from]) => score >= from);
  if (!tier) throw new Error(`${score} is no score`);
  const [, prediction, verdict, isFake] = tier;
  return { prediction, verdict, isFake, confidence: 2 * Math.abs(score - 0.5) };
}

/** `pixelScore`: the mean of the models before any move. `reason`: every move of the score, or null. */
export type Ensemble = Tier & {
  score: number;
  pixelScore: number;
  declared: Declared;
  succeeded: number;
  total: number;
  reason: string | null;
};
/** `unlike` and `ai_from` come from the model's file; older results and models do not have them. */
type ModelScore = {
  score: number | null;
  status: string;
  unlike?: boolean | undefined;
  ai_from?: number | null | undefined;
};
/** Findings of a detector about a file. Without signals nothing is declared. */
export type Finding = {
  models: Readonly<Partial<Record<string, ModelScore>>>;
  signals?: Evidence | undefined;
  media?: { kind: string; width?: number; height?: number } | undefined;
  layout?: string | undefined;
};

export const UNLIKE_TRAINING =
  "The file is unlike everything in the training data, so the score is moved into uncertain";
export const AI_NOT_PROVEN = "The tier ai is not proven at this score, so the score stays below it";

/** The prior that moves no score: as many generated files as real ones. */
export const EVEN = 0.5;

/**
 * The score of the models that succeeded, moved by what is known: by the share of generated files in the traffic, then by doubt, then
 * up to what the file declares. Undefined: no model succeeded.
 */
export function ensembleOf({ models, signals, media, layout }: Finding, prior = EVEN): Ensemble | undefined {
  const results = Object.values(models);
  const succeeded = results.flatMap((each) => (each?.status === "success" && each.score !== null ? [each] : []));
  if (succeeded.length === 0) return undefined;
  const pixelScore = succeeded.reduce((sum, each) => sum + each.score!, 0) / succeeded.length;
  const doubt = doubtOf({ media, layout });
  const shifted = withPrior(pixelScore, prior);
  const doubted = doubt === null ? moved(shifted.score, succeeded) : { score: undecided(shifted.score), reason: doubt };
  const declaration = signals ? declarationOf(signals) : undefined;
  const { score, reason } = declaration && declaration.least > doubted.score ? raised(declaration) : doubted;
  const notes = [shifted.reason, layout === "framed" ? FRAMED : null].filter((each) => each !== null);
  const declared = declaration?.declared ?? "none";
  return {
    ...tierOf(score),
    score,
    pixelScore,
    declared,
    succeeded: succeeded.length,
    total: results.length,
    reason: reason ?? (notes.length > 0 ? notes.join(". ") : null),
  };
}

/** Adds the log-odds of the prior to those of the score. */
function withPrior(score: number, prior: number): { score: number; reason: string | null } {
  if (prior === EVEN) return { score, reason: null };
  const [ai, real] = [score * prior, (1 - score) * (1 - prior)];
  const way = prior < EVEN ? "lower" : "higher";
  const reason = `The account says that ${+(100 * prior).toFixed(1)} % of its files are generated, so the score is ${way}`;
  return { score: ai / (ai + real), reason };
}

/** The networks know no image with a shorter side. */
const LEAST_SIDE = 256;
export const SMALL = `The image has a side of less than ${LEAST_SIDE} pixels, so the score is moved into uncertain`;
export const BLANK = "The image is blank or flat, so the score is moved into uncertain";
export const SCREENSHOT = "The image is a screenshot without a picture, so the score is moved into uncertain";
export const NOT_SPEECH =
  "The recording is music, noise or silence and not speech, so the score is moved into uncertain";
export const FRAMED = "The picture inside the borders was scored; of a screenshot less can be said";

/** The reason why the networks can say nothing about a file, or null. */
function doubtOf({ media, layout }: Pick<Finding, "media" | "layout">): string | null {
  if (media?.kind === "image" && Math.min(media.width ?? LEAST_SIDE, media.height ?? LEAST_SIDE) < LEAST_SIDE)
    return SMALL;
  if (layout === "blank") return BLANK;
  if (layout === "not_speech") return NOT_SPEECH;
  return layout === "screenshot" ? SCREENSHOT : null;
}

const raised = ({ least, reason }: Declaration) => ({ score: least, reason });

const AI_FROM = TIERS[0][0];
/** The highest score that models without a proven tier `ai` can give together. */
const BELOW_AI = 0.8499;

function moved(score: number, models: readonly ModelScore[]): { score: number; reason: string | null } {
  if (models.every(({ unlike }) => unlike === true)) return { score: undecided(score), reason: UNLIKE_TRAINING };
  const isProven = models.every(({ ai_from: from }) => from === undefined || (from !== null && score >= from));
  return score < AI_FROM || isProven ? { score, reason: null } : { score: BELOW_AI, reason: AI_NOT_PROVEN };
}

/** Maps any score into the tier `uncertain`. Higher scores stay higher. */
const undecided = (score: number) => 0.46 + 0.08 * score;
