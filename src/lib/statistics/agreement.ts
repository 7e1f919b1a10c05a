/** A label of one annotator. Null: the annotator gave none. */
export type Label = string | number | null;

export type KappaWeights = "none" | "linear" | "quadratic";

export type Agreement = {
  /** Null where chance alone would agree completely, or where no item has two labels. */
  value: number | null;
  /** Items with at least two labels. */
  items: number;
};

/**
 * Cohen's kappa of two annotators. Items that one of them left out do not count.
 * `categories` gives the order that linear and quadratic weights need; without it the labels that occur are sorted.
 */
export function cohenKappa(
  first: readonly Label[],
  second: readonly Label[],
  options: { weights?: KappaWeights; categories?: readonly (string | number)[] } = {},
): Agreement {
  if (first.length !== second.length) throw new RangeError("the two lists of labels differ in length");
  const pairs = first.flatMap((a, i) => {
    const b = second[i] ?? null;
    return a === null || b === null ? [] : [[a, b] as const];
  });
  const n = pairs.length;
  if (n === 0) return { value: null, items: 0 };
  const categories = options.categories ?? inOrder(new Set(pairs.flat()));
  const position = new Map(categories.map((category, i) => [category, i]));
  const size = categories.length;
  const cost = disagreement(options.weights ?? "none");
  const rows = new Float64Array(size);
  const columns = new Float64Array(size);
  let observed = 0;
  for (const [a, b] of pairs) {
    const [i, j] = [position.get(a), position.get(b)];
    if (i === undefined || j === undefined) throw new RangeError("a label is not one of the categories");
    rows[i]! += 1;
    columns[j]! += 1;
    observed += cost(i, j);
  }
  let expected = 0;
  for (let i = 0; i < size; i++) for (let j = 0; j < size; j++) expected += (cost(i, j) * rows[i]! * columns[j]!) / n;
  return { value: expected === 0 ? null : 1 - observed / expected, items: n };
}

function disagreement(weights: KappaWeights): (i: number, j: number) => number {
  if (weights === "linear") return (i, j) => Math.abs(i - j);
  if (weights === "quadratic") return (i, j) => (i - j) ** 2;
  return (i, j) => (i === j ? 0 : 1);
}

export type Level = "nominal" | "ordinal" | "interval";

/**
 * Krippendorff's alpha of any number of annotators with missing labels. Each unit is the list of its labels.
 * `interval` needs numbers. `categories` gives the order of an ordinal scale; without it the labels are sorted.
 */
export function krippendorffAlpha(
  units: readonly (readonly Label[])[],
  options: { level?: Level; categories?: readonly (string | number)[] } = {},
): Agreement {
  const pairable = units.map((unit) => unit.filter((label) => label !== null)).filter((unit) => unit.length > 1);
  if (pairable.length === 0) return { value: null, items: 0 };
  const counts = new Map<string | number, number>();
  for (const label of pairable.flat()) counts.set(label, (counts.get(label) ?? 0) + 1);
  const order = options.categories ?? inOrder(new Set(counts.keys()));
  for (const label of counts.keys())
    if (!order.includes(label)) throw new RangeError("a label is not one of the categories");
  const labels = order.filter((label) => counts.has(label));
  const delta = squaredDistance(options.level ?? "nominal", labels, counts);
  const position = new Map(labels.map((label, i) => [label, i]));
  const total = pairable.reduce((sum, unit) => sum + unit.length, 0);
  let observed = 0;
  for (const unit of pairable) {
    let within = 0;
    for (const a of unit) for (const b of unit) within += delta(position.get(a)!, position.get(b)!);
    observed += within / (unit.length - 1);
  }
  let expected = 0;
  for (const [i, a] of labels.entries())
    for (const [j, b] of labels.entries()) expected += delta(i, j) * counts.get(a)! * counts.get(b)!;
  const value = expected === 0 ? null : 1 - ((total - 1) * observed) / expected;
  return { value, items: pairable.length };
}

/** The squared distance between two labels, by their positions in `labels`. */
function squaredDistance(
  level: Level,
  labels: readonly (string | number)[],
  counts: ReadonlyMap<string | number, number>,
): (i: number, j: number) => number {
  if (level === "nominal") return (i, j) => (i === j ? 0 : 1);
  if (level === "interval") {
    if (labels.some((label) => typeof label !== "number")) throw new RangeError("an interval scale needs numbers");
    return (i, j) => (Number(labels[i]) - Number(labels[j])) ** 2;
  }
  // Labels between the two count whole, the two themselves half.
  const below = [0];
  for (const label of labels) below.push(below.at(-1)! + counts.get(label)!);
  const middle = labels.map((_, i) => (below[i]! + below[i + 1]!) / 2);
  return (i, j) => (middle[i]! - middle[j]!) ** 2;
}

/** Numbers by size, then texts by code unit. */
function inOrder(labels: ReadonlySet<string | number>): (string | number)[] {
  return [...labels].sort((a, b) => {
    if (typeof a === "number" && typeof b === "number") return a - b;
    if (typeof a === typeof b) return a < b ? -1 : 1;
    return typeof a === "number" ? -1 : 1;
  });
}
