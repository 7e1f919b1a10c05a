/** Compares an adaptation with what is in use. Pure. */
import { auroc, balancedAccuracy, calibrationBins, calibrationError, evened, precisionFrom } from "../figures.ts";
import { lossOf, type Scores } from "./learn.ts";

export type Figures = {
  auroc: number;
  log_loss: number;
  balanced_accuracy: number;
  ece: number;
  ai_precision: number | null;
  ai_recall: number | null;
};
export type Comparison = { view: string; files: number; before: Figures; after: Figures };

const AI_TIER = 0.85;
const ROUNDING = 1e-9;

/** Figures as if both labels had equally many files. */
export function compare(scores: readonly Scores[], views: readonly string[]): Comparison[] {
  return views.map((view, at) => {
    const figures = (when: "before" | "after") =>
      figuresOf(scores.map((each) => ({ isAi: each.isAi, score: each[when][at] ?? Number.NaN })));
    return { view, files: scores.length, before: figures("before"), after: figures("after") };
  });
}

function figuresOf(items: readonly { isAi: boolean; score: number }[]): Figures {
  const even = evened(items);
  const weight = even.reduce((sum, each) => sum + each.weight, 0);
  const { precision, recall } = precisionFrom(even, AI_TIER);
  return {
    auroc: auroc(items) ?? Number.NaN,
    log_loss: even.reduce((sum, { score, isAi, weight }) => sum + weight * lossOf(score, isAi), 0) / weight,
    balanced_accuracy: balancedAccuracy(items, 0.5) ?? Number.NaN,
    ece: calibrationError(calibrationBins(even)) ?? Number.NaN,
    ai_precision: precision,
    ai_recall: recall,
  };
}

const CHECKS = [
  { name: "AUROC", key: "auroc", sign: 1 },
  { name: "log loss", key: "log_loss", sign: -1 },
] as const;

/** The reasons why the adaptation is not used. Empty: it is better on the kept files, and in no view worse. */
export function objections(kept: readonly Comparison[]): string[] {
  const worse = kept.flatMap(({ view, before, after }) =>
    CHECKS.flatMap(({ name, key, sign }) =>
      sign * (after[key] - before[key]) >= -ROUNDING
        ? []
        : [
            `the ${name} of the kept files (${view}) would go from ${before[key].toFixed(3)} to ${after[key].toFixed(3)}`,
          ],
    ),
  );
  const gains = kept.some(({ before, after }) => before.log_loss - after.log_loss > ROUNDING);
  return worse.length > 0 || gains ? worse : ["nothing gets better on the kept files"];
}

export type Origin = { isAi: boolean; format: string; size: number };
const SHARE_GAP = 0.3;
const SIZE_AUROC = 0.85;

/** Differences between the labels that have nothing to do with how the files were made. */
export function shortcuts(files: readonly Origin[]): string[] {
  const [ai, real] = [files.filter(({ isAi }) => isAi), files.filter(({ isAi }) => !isAi)];
  const share = (some: readonly Origin[], format: string) =>
    some.filter((each) => each.format === format).length / Math.max(1, some.length);
  const formats = [...new Set(files.map(({ format }) => format))]
    .filter((format) => Math.abs(share(ai, format) - share(real, format)) > SHARE_GAP)
    .map(
      (format) =>
        `${percent(share(ai, format))} of the generated files are ${format}, but ${percent(share(real, format))} of the real ones`,
    );
  const bySize = auroc(files.map(({ isAi, size }) => ({ isAi, score: size }))) ?? 0.5;
  const sizes = Math.max(bySize, 1 - bySize) > SIZE_AUROC ? ["size alone tells the labels apart"] : [];
  return [...formats, ...sizes];
}

const percent = (share: number) => `${Math.round(100 * share)} %`;
