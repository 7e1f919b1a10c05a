/** All figures of a set of labelled files. Pure. A figure is null if it needs a label that no file has. */

import { PREDICTIONS, type Prediction, tierOf } from "../../lib/detection/tiers.ts";
import {
  auroc,
  type Bin,
  balancedAccuracy,
  calibrationBins,
  calibrationError,
  evened,
  precisionFrom,
} from "./figures.ts";

export type Sample = {
  isAi: boolean;
  source: string;
  /** Score of the ensemble. */
  score: number;
  /** Score of each model that succeeded. */
  models: Readonly<Record<string, number>>;
  /** Score of the ensemble after each re-encode; empty if there was none. */
  views: Readonly<Record<string, number>>;
};

export type SourceFigures = {
  label: "ai" | "real";
  source: string;
  files: number;
  /** Compared with all files of the other label. */
  auroc: number | null;
  mean_score: number;
  /** Share of the files on the right side of the threshold. */
  accuracy: number;
  tiers: Record<Prediction, number>;
};
type Ranking = { auroc: number | null; files: number };

export type Evaluation = {
  files: { ai: number; real: number };
  threshold: number;
  auroc: number | null;
  balanced_accuracy: number | null;
  /** `evened`: computed as if there were as many generated files as real ones. */
  ai_tier: { precision: number | null; precision_evened: number | null; recall: number | null; files: number };
  ece: number | null;
  ece_evened: number | null;
  mean_over_sources: number | null;
  worst_source: Pick<SourceFigures, "label" | "source" | "auroc"> | null;
  models: Record<string, Ranking>;
  /** `of_clean`: AUROC relative to that of the same files without the re-encode. */
  robustness: Record<string, Ranking & { of_clean: number | null }>;
  calibration: Omit<Bin, "weight">[];
  sources: SourceFigures[];
};

const AI_TIER = 0.85;

export function evaluate(samples: readonly Sample[], threshold: number): Evaluation {
  const even = evened(samples);
  const bins = calibrationBins(samples);
  const sources = sourcesOf(samples, threshold);
  const ranked = sources.filter((each) => each.auroc !== null).sort((a, b) => a.auroc! - b.auroc!);
  const [worst] = ranked;
  return {
    files: { ai: samples.filter(({ isAi }) => isAi).length, real: samples.filter(({ isAi }) => !isAi).length },
    threshold,
    auroc: auroc(samples),
    balanced_accuracy: balancedAccuracy(samples, threshold),
    ai_tier: { ...precisionFrom(samples, AI_TIER), precision_evened: precisionFrom(even, AI_TIER).precision },
    ece: calibrationError(bins),
    ece_evened: calibrationError(calibrationBins(even)),
    mean_over_sources: ranked.length === 0 ? null : mean(ranked.map((each) => each.auroc!)),
    worst_source: worst ? { label: worst.label, source: worst.source, auroc: worst.auroc } : null,
    models: rankings(samples, ({ models }) => models),
    robustness: robustnessOf(samples),
    calibration: bins.map(({ weight: _, ...bin }) => bin),
    sources,
  };
}

const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;

function rankings(samples: readonly Sample[], scoresOf: (sample: Sample) => Readonly<Record<string, number>>) {
  const names = new Set(samples.flatMap((sample) => Object.keys(scoresOf(sample))));
  const rank = (name: string): Ranking => {
    const some = samples.flatMap((sample) => {
      const score = scoresOf(sample)[name];
      return score === undefined ? [] : [{ isAi: sample.isAi, score }];
    });
    return { auroc: auroc(some), files: some.length };
  };
  return Object.fromEntries([...names].map((name) => [name, rank(name)]));
}

function robustnessOf(samples: readonly Sample[]): Evaluation["robustness"] {
  const ranked = rankings(samples, ({ views }) => views);
  const entries = Object.entries(ranked).map(([view, ranking]) => {
    const clean = auroc(samples.filter(({ views }) => views[view] !== undefined));
    const share = ranking.auroc === null || !clean ? null : ranking.auroc / clean;
    return [view, { ...ranking, of_clean: share }] as const;
  });
  return Object.fromEntries(entries);
}

function sourcesOf(samples: readonly Sample[], threshold: number): SourceFigures[] {
  const figures = ([true, false] as const).flatMap((isAi) => {
    const others = samples.filter((sample) => sample.isAi !== isAi);
    const bySource = Map.groupBy(
      samples.filter((sample) => sample.isAi === isAi),
      ({ source }) => source,
    );
    return [...bySource].map(([source, mine]): SourceFigures => {
      const right = mine.filter(({ score }) => score >= threshold === isAi).length;
      return {
        label: isAi ? "ai" : "real",
        source,
        files: mine.length,
        auroc: auroc([...mine, ...others]),
        mean_score: mean(mine.map(({ score }) => score)),
        accuracy: right / mine.length,
        tiers: tiersOf(mine),
      };
    });
  });
  return figures.sort((a, b) => (a.label === b.label ? (a.source < b.source ? -1 : 1) : a.label === "ai" ? -1 : 1));
}

function tiersOf(samples: readonly Sample[]): Record<Prediction, number> {
  const tiers = samples.map(({ score }) => tierOf(score).prediction);
  const count = (tier: Prediction) => tiers.filter((each) => each === tier).length;
  return Object.fromEntries(PREDICTIONS.map((tier) => [tier, count(tier)])) as Record<Prediction, number>;
}
