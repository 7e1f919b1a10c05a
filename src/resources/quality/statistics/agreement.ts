/** A label of one annotator. Null: the annotator gave none. */
export type Label = string | number | null;

export type KappaWeights = "none" | "linear" | "quadratic";

export type Agreement = {
  /** Null where chance alone would agree completely, or where no item has two labels. */
  value: number | null;
  /** Items with at least two labels. */
  items: number;
};

type KappaOptions = { weights?: KappaWeights; categories?: readonly (string | number)[] };

/** Items by the labels of both annotators. */
export type Cell = { first: string | number; second: string | number; items: number };

/**
 * Cohen's kappa of two annotators from counts. Items that one of them left out do not count. `categories` gives the
 * order that linear and quadratic weights need; without it the labels that occur are sorted.
 */
export function kappaOf(cells: readonly Cell[], options: KappaOptions = {}): Agreement {
  const n = cells.reduce((sum, { items }) => sum + items, 0);
  if (n === 0) return { value: null, items: 0 };
  const categories = options.categories ?? inOrder(new Set(cells.flatMap((cell) => [cell.first, cell.second])));
  const position = new Map(categories.map((category, i) => [category, i]));
  const weights = options.weights ?? "none";
  const [rows, columns] = [new Float64Array(categories.length), new Float64Array(categories.length)];
  let observed = 0;
  for (const { first, second, items } of cells) {
    const [i, j] = [position.get(first), position.get(second)];
    if (i === undefined || j === undefined) throw new RangeError("a label is not one of the categories");
    rows[i]! += items;
    columns[j]! += items;
    observed += items * cost(weights, i, j);
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

type AlphaOptions = { level?: Level; categories?: readonly (string | number)[] };

/** `items`: units with two labels or more. `counts`: their labels. `within`: see `withinUnit`, by the number of labels. */
export type AlphaSums = {
  items: number;
  counts: Counts;
  within: readonly { key: string; values: number; n: number }[];
};

/**
 * The disagreement inside a unit: the sum of distances over all ordered pairs of its labels. The distances of an ordinal
 * scale depend on all units, so there `n` counts the pairs, and `key` has the two positions in the order.
 */
export function withinUnit(
  unit: readonly (string | number)[],
  level: Level,
  order: readonly (string | number)[],
): { key: string; n: number }[] {
  const counts = new Map<string | number, number>();
  for (const label of unit) counts.set(label, (counts.get(label) ?? 0) + 1);
  if (level === "nominal") {
    const n = unequalPairs(counts, unit.length);
    return n === 0 ? [] : [{ key: "", n }];
  }
  const pairs = [...counts].flatMap(([a, many], i) =>
    [...counts].slice(i + 1).map(([b, others]) => ({ a, b, n: 2 * many * others })),
  );
  if (level === "ordinal") return pairs.map(({ a, b, n }) => ({ key: `${order.indexOf(a)} ${order.indexOf(b)}`, n }));
  const n = pairs.reduce((sum, pair) => sum + pair.n * (Number(pair.a) - Number(pair.b)) ** 2, 0);
  return n === 0 ? [] : [{ key: "", n }];
}

/**
 * Krippendorff's alpha of any number of annotators with missing labels, from sums over all units. `interval` needs
 * numbers. `categories` gives the order of an ordinal scale.
 */
export function alphaOf({ items, counts, within }: AlphaSums, { level = "nominal", categories = [] }: AlphaOptions) {
  if (items === 0) return { value: null, items };
  const allowed = new Set(categories);
  for (const label of counts.keys())
    if (allowed.size > 0 && !allowed.has(label)) throw new RangeError("a label is not one of the categories");
  const order = level === "ordinal" ? categories : [...counts.keys()];
  const labels = order.filter((label) => counts.has(label));
  if (labels.length === 1) return { value: null, items };
  const points = pointsOf(level, labels, counts);
  const total = [...counts.values()].reduce((sum, count) => sum + count, 0);
  const distance = (key: string) => {
    if (level !== "ordinal" || !points) return 1;
    const [a = 0, b = 0] = key.split(" ").map((position) => points.get(categories[Number(position)] as string));
    return (a - b) ** 2;
  };
  const observed = within.reduce((sum, { key, values, n }) => sum + (n * distance(key)) / (values - 1), 0);
  const expected = points ? squaredDistances(points, counts, total) : unequalPairs(counts, total);
  return { value: 1 - ((total - 1) * observed) / expected, items };
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
