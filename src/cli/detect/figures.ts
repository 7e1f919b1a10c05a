/**
 * How good scores are, from files whose truth is known. Null where there is nothing to compute from. A weight says how
 * much a file counts (1 unless set): what depends on the mix of labels can be had for another mix.
 */
export type Judged = { isAi: boolean; score: number; weight?: number };

const weightOf = ({ weight = 1 }: Judged) => weight;
const total = (items: readonly Judged[]) => items.reduce((sum, item) => sum + weightOf(item), 0);
const share = (part: readonly Judged[], whole: readonly Judged[]) =>
  total(whole) === 0 ? null : total(part) / total(whole);

/** The probability that a generated file scores above a real one; ties count half. Weights do not matter to it. */
export function auroc(items: readonly Judged[]): number | null {
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

/** The mean of both labels' shares that lie on their side; the threshold itself is on the generated one. */
export function balancedAccuracy(items: readonly Judged[], threshold: number): number | null {
  const [ai, real] = [items.filter(({ isAi }) => isAi), items.filter(({ isAi }) => !isAi)];
  const found = share(
    ai.filter(({ score }) => score >= threshold),
    ai,
  );
  const spared = share(
    real.filter(({ score }) => score < threshold),
    real,
  );
  return found === null || spared === null ? null : (found + spared) / 2;
}

export type Precision = { precision: number | null; recall: number | null; files: number };

/** Of the files from a score on: how many are generated, and how many of the generated they are. */
export function precisionFrom(items: readonly Judged[], score: number): Precision {
  const called = items.filter((item) => item.score >= score);
  const right = called.filter(({ isAi }) => isAi);
  const ai = items.filter(({ isAi }) => isAi);
  return { precision: share(right, called), recall: share(right, ai), files: called.length };
}

/** `mean_score` is what was said of the files from `from` up to `to`, `share_ai` what they are. */
export type Bin = { from: number; to: number; files: number; mean_score: number; share_ai: number; weight: number };

/** Equally wide; empty ones are left out. The last one holds a score of 1 too. */
export function calibrationBins(items: readonly Judged[], count = 10): Bin[] {
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

/** How far off a score is, on average: the expected calibration error. */
export function calibrationError(bins: readonly Bin[]): number | null {
  const weight = bins.reduce((sum, bin) => sum + bin.weight, 0);
  if (weight === 0) return null;
  return bins.reduce((sum, bin) => sum + Math.abs(bin.mean_score - bin.share_ai) * bin.weight, 0) / weight;
}

/** The same files as if there were as many of each label. */
export function evened<T extends Judged>(items: readonly T[]): (T & { weight: number })[] {
  const ai = items.filter(({ isAi }) => isAi).length;
  return items.map((item) => ({ ...item, weight: items.length / 2 / (item.isAi ? ai : items.length - ai) }));
}
