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
  const weights = options.weights ?? "none";
  const [rows, columns] = [new Float64Array(categories.length), new Float64Array(categories.length)];
  let observed = 0;
  for (const [a, b] of pairs) {
    const [i, j] = [position.get(a), position.get(b)];
    if (i === undefined || j === undefined) throw new RangeError("a label is not one of the categories");
    rows[i]! += 1;
    columns[j]! += 1;
    observed += cost(weights, i, j);
  }
  const expected = expectedCost(weights, rows, columns, n) / n;
  return { value: expected === 0 ? null : 1 - observed / expected, items: n };
}

function cost(weights: KappaWeights, i: number, j: number): number {
  if (weights === "none") return i === j ? 0 : 1;
  return weights === "linear" ? Math.abs(i - j) : (i - j) ** 2;
}

/** The sum of cost(i, j) · rows[i] · columns[j], in one pass over the categories: free texts may be thousands. */
function expectedCost(weights: KappaWeights, rows: Float64Array, columns: Float64Array, n: number): number {
  let [same, apart, below, under] = [0, 0, 0, 0];
  const sums = { row: 0, column: 0, squares: 0 };
  for (let i = 0; i < rows.length; i++) {
    const [row, column] = [rows[i]!, columns[i]!];
    same += row * column;
    below += row;
    under += column;
    apart += below * (n - under) + under * (n - below);
    sums.row += i * row;
    sums.column += i * column;
    sums.squares += i * i * (row + column);
  }
  if (weights === "none") return n * n - same;
  return weights === "linear" ? apart : n * sums.squares - 2 * sums.row * sums.column;
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
  const known = new Set(order);
  for (const label of counts.keys())
    if (!known.has(label)) throw new RangeError("a label is not one of the categories");
  const labels = order.filter((label) => counts.has(label));
  if (labels.length === 1) return { value: null, items: pairable.length };
  const points = pointsOf(options.level ?? "nominal", labels, counts);
  const total = pairable.reduce((sum, unit) => sum + unit.length, 0);
  let observed = 0;
  for (const unit of pairable) {
    let within = 0;
    for (const a of unit)
      for (const b of unit) within += points ? (points.get(a)! - points.get(b)!) ** 2 : a === b ? 0 : 1;
    observed += within / (unit.length - 1);
  }
  const expected = points ? squaredDistances(points, counts, total) : unequalPairs(counts, total);
  return { value: 1 - ((total - 1) * observed) / expected, items: pairable.length };
}

type Counts = ReadonlyMap<string | number, number>;

/** The point of each label on a line: the distance of two labels is that of their points. Null for a nominal scale. */
function pointsOf(level: Level, labels: readonly (string | number)[], counts: Counts) {
  if (level === "nominal") return null;
  if (level === "interval") {
    if (labels.some((label) => typeof label !== "number")) throw new RangeError("an interval scale needs numbers");
    return new Map(labels.map((label) => [label, Number(label)]));
  }
  // Labels between two labels count whole, the two themselves half.
  let below = 0;
  return new Map(
    labels.map((label) => {
      const count = counts.get(label)!;
      below += count;
      return [label, below - count / 2];
    }),
  );
}

/** The sum over all pairs of labels, in one pass. Points are taken from their mean, so that large ones lose no digits. */
function squaredDistances(points: ReadonlyMap<string | number, number>, counts: Counts, total: number): number {
  let sum = 0;
  for (const [label, count] of counts) sum += count * points.get(label)!;
  let squares = 0;
  for (const [label, count] of counts) squares += count * (points.get(label)! - sum / total) ** 2;
  return 2 * total * squares;
}

function unequalPairs(counts: Counts, total: number): number {
  let equal = 0;
  for (const count of counts.values()) equal += count * count;
  return total * total - equal;
}

/** Numbers by size, then texts by code unit. */
function inOrder(labels: ReadonlySet<string | number>): (string | number)[] {
  return [...labels].sort((a, b) => {
    if (typeof a === "number" && typeof b === "number") return a - b;
    if (typeof a === typeof b) return a < b ? -1 : 1;
    return typeof a === "number" ? -1 : 1;
  });
}
