/** Agreement from the labels themselves. The product keeps sums of them (annotation_queues/sums.ts). */
import {
  type Agreement,
  alphaOf,
  type KappaWeights,
  kappaOf,
  type Label,
  type Level,
  withinUnit,
} from "../src/resources/quality/statistics/agreement.ts";

type Categories = readonly (string | number)[];

/** Cohen's kappa of two annotators. */
export function cohenKappa(
  first: readonly Label[],
  second: readonly Label[],
  options: { weights?: KappaWeights; categories?: Categories } = {},
): Agreement {
  const cells = first.flatMap((a, i) => {
    const b = second[i] ?? null;
    return a === null || b === null ? [] : [{ first: a, second: b, items: 1 }];
  });
  return kappaOf(cells, options);
}

/** Krippendorff's alpha. Each unit is the list of its labels. Without `categories` the labels are sorted. */
export function krippendorffAlpha(
  units: readonly (readonly Label[])[],
  options: { level?: Level; categories?: Categories } = {},
): Agreement {
  const { level = "nominal" } = options;
  const pairable = units.map((unit) => unit.filter((label) => label !== null)).filter((unit) => unit.length > 1);
  const counts = new Map<string | number, number>();
  for (const label of pairable.flat()) counts.set(label, (counts.get(label) ?? 0) + 1);
  const categories = options.categories ?? [...counts.keys()].sort((a, b) => (a < b ? -1 : 1));
  const within = pairable.flatMap((unit) =>
    withinUnit(unit, level, categories).map((each) => ({ ...each, values: unit.length })),
  );
  return alphaOf({ items: pairable.length, counts, within }, { level, categories });
}
