/** Maps scores to predictions. A boundary belongs to the higher tier. */
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

export function tierOf(score: number): Tier {
  const tier = TIERS.find(([from]) => score >= from);
  if (!tier) throw new Error(`${score} is no score`);
  const [, prediction, verdict, isFake] = tier;
  return { prediction, verdict, isFake, confidence: 2 * Math.abs(score - 0.5) };
}

/** `reason`: why the prediction does not follow from the score alone, or null. */
export type Ensemble = Tier & { score: number; succeeded: number; total: number; reason: string | null };
/** `unlike` and `ai_from` come from the model's file; older results and models do not have them. */
type ModelScore = {
  score: number | null;
  status: string;
  unlike?: boolean | undefined;
  ai_from?: number | null | undefined;
};
type ModelScores = Readonly<Partial<Record<string, ModelScore>>>;

export const UNLIKE_TRAINING = "The file is unlike everything in the training data, so its score says nothing";
export const AI_NOT_PROVEN =
  "The score is too low for the tier ai, which needs a precision of 95 % in cross-validation";

/** The mean of the models that succeeded. Undefined: none did. */
export function ensembleOf(models: ModelScores): Ensemble | undefined {
  const results = Object.values(models);
  const succeeded = results.flatMap((each) => (each?.status === "success" && each.score !== null ? [each] : []));
  if (succeeded.length === 0) return undefined;
  const score = succeeded.reduce((sum, each) => sum + each.score!, 0) / succeeded.length;
  return { ...judgedTier(score, succeeded), score, succeeded: succeeded.length, total: results.length };
}

/** The tier of the score, unless all models call the file unlike training, or one has not proven the tier `ai` here. */
function judgedTier(score: number, models: readonly ModelScore[]): Tier & { reason: string | null } {
  if (models.every(({ unlike }) => unlike === true))
    return { prediction: "uncertain", verdict: "uncertain", isFake: null, confidence: 0, reason: UNLIKE_TRAINING };
  const tier = tierOf(score);
  const isProven = models.every(({ ai_from: from }) => from === undefined || (from !== null && score >= from));
  if (tier.prediction !== "ai" || isProven) return { ...tier, reason: null };
  return { ...tier, prediction: "likely_ai", verdict: "likely_ai", reason: AI_NOT_PROVEN };
}
