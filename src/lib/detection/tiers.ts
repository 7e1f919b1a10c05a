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

export type Ensemble = Tier & { score: number; succeeded: number; total: number };
type ModelScores = Readonly<Partial<Record<string, { score: number | null; status: string }>>>;

/** The mean of the models that succeeded. Undefined: none did. */
export function ensembleOf(models: ModelScores): Ensemble | undefined {
  const results = Object.values(models);
  const scores = results.flatMap((each) => (each?.status === "success" && each.score !== null ? [each.score] : []));
  if (scores.length === 0) return undefined;
  const score = scores.reduce((sum, each) => sum + each, 0) / scores.length;
  return { ...tierOf(score), score, succeeded: scores.length, total: results.length };
}
