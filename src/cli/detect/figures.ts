/**
 * Quality figures of scores, from labelled files. A figure is null if it cannot be computed. The weight of a file
 * (default 1) allows to compute figures for another mix of labels.
 */
export type Labelled = { isAi: boolean; score: number; weight?: number };

const weightOf = ({ weight = 1 }: Labelled) => weight;
const total = (items: readonly Labelled[]) => items.reduce((sum, item) => sum + weightOf(item), 0);
const share = (part: readonly Labelled[], whole: readonly Labelled[]) =>
  total(whole) === 0 ? null : total(part) / total(whole);

/** The probability that a generated file scores above a real one. Ties count half; weights are ignored. */
export function auroc(items: readonly Labelled[]): number | null {
  const sorted = items.toSorted((a, b) => a.score - b.score);
  const ai = sorted.filter(({ isAi }) => isAi).length;
  const real = sorted.length - ai;
  if (ai === 0 || real === 0) return null;
  let [won, realBelow] = [0, 0];
  for (let from = 0; from < sorted.length; ) {
    let [to, aiHere] = [from, 0];
    for (; sorted[to]?.score === sorted[from]!.score; to++) if (sorted[to]!.isAi) aiHere++;
    const realHere = to - from - aiHere;
    won += aiHere * (realBelow + realHere / 2);
    realBelow += realHere;
    from = to;
  }
  return won / (ai * real);
}

/** The mean of both labels' accuracies. A score equal to the threshold counts as generated. */
export function balancedAccuracy(items: readonly Labelled[], threshold: number): number | null {
  const [ai, real] = [items.filter(({ isAi }) => isAi), items.filter(({ isAi }) => !isAi)];
  const recall = share(
    ai.filter(({ score }) => score >= threshold),
    ai,
  );
  const spared = share(
    real.filter(({ score }) => score < threshold),
    real,
  );
  return recall === null || spared === null ? null : (recall + spared) / 2;
}

export type Precision = { precision: number | null; recall: number | null; files: number };

/** Precision and recall of calling every file with at least this score generated. */
export function precisionFrom(items: readonly Labelled[], score: number): Precision {
  const called = items.filter((item) => item.score >= score);
  const right = called.filter(({ isAi }) => isAi);
  const ai = items.filter(({ isAi }) => isAi);
  return { precision: share(right, called), recall: share(right, ai), files: called.length };
}

/** Files with scores from `from` to `to`: their mean score and the share of generated files among them. */
export type Bin = { from: number; to: number; files: number; mean_score: number; share_ai: number; weight: number };

/** Bins of equal width without the empty ones. The last bin includes the score 1. */
export function calibrationBins(items: readonly Labelled[], count = 10): Bin[] {
  const bins = Map.groupBy(items, ({ score }) => Math.min(Math.floor(score * count), count - 1));
  return [...bins]
    .sort(([a], [b]) => a - b)
    .map(([at, inside]) => {
      const weight = total(inside);
      const said = inside.reduce((sum, item) => sum + item.score * weightOf(item), 0);
      const ai = total(inside.filter(({ isAi }) => isAi));
      const edges = { from: at / count, to: (at + 1) / count };
      return { ...edges, files: inside.length, mean_score: said / weight, share_ai: ai / weight, weight };
    });
}

/** The expected calibration error: how far scores are off on average. */
export function calibrationError(bins: readonly Bin[]): number | null {
  const weight = bins.reduce((sum, bin) => sum + bin.weight, 0);
  if (weight === 0) return null;
  return bins.reduce((sum, bin) => sum + Math.abs(bin.mean_score - bin.share_ai) * bin.weight, 0) / weight;
}

/** The same files, weighted as if both labels had equally many. */
export function evened<T extends Labelled>(items: readonly T[]): (T & { weight: number })[] {
  const ai = items.filter(({ isAi }) => isAi).length;
  return items.map((item) => ({ ...item, weight: items.length / 2 / (item.isAi ? ai : items.length - ai) }));
}
