/** Sorting the rows of a table. Pure. */
export type Sort = { key: string; down: boolean };
export type SortValue = string | number | null;

/** "-created" ↔ descending by `created`. */
export const sortText = ({ key, down }: Sort): string => `${down ? "-" : ""}${key}`;
export const sortOf = (text: string | undefined): Sort | undefined =>
  text ? { key: text.replace(/^-/, ""), down: text.startsWith("-") } : undefined;

const compareTexts = new Intl.Collator("en", { numeric: true, sensitivity: "base" }).compare;

/** Rows without a value are last in both directions. Equal rows keep their order. */
export function sorted<T>(rows: readonly T[], by: (row: T) => SortValue, down: boolean): T[] {
  const sign = down ? -1 : 1;
  return rows
    .map((row) => ({ row, value: by(row) }))
    .sort(({ value: a }, { value: b }) => {
      if (a === null || b === null) return Number(a === null) - Number(b === null);
      if (typeof a === "number" && typeof b === "number") return sign * (a - b);
      return sign * compareTexts(String(a), String(b));
    })
    .map(({ row }) => row);
}

/** Parts of this many rows are drawn or left out together: so few that a frame of scrolling has little to draw. */
export const CHUNK = 3;
/** A list of at most this many rows is one part. */
export const MOST_WHOLE = 100;

export type Part<T> = { key: string; rows: readonly T[] };

export function chunksOf<T>(rows: readonly T[], keyOf: (row: T) => string): Part<T>[] {
  if (rows.length <= MOST_WHOLE) return [{ key: "all", rows }];
  return Array.from({ length: Math.ceil(rows.length / CHUNK) }, (_, i) => {
    const part = rows.slice(i * CHUNK, (i + 1) * CHUNK);
    return { key: part[0] ? keyOf(part[0]) : String(i), rows: part };
  });
}

/** The parts `first` to `last` are drawn; the others are empty space, in pixels. */
export type Near = { first: number; last: number; above: number; below: number };

/** The parts between two places, in pixels from the upper edge of the first part. At least one. */
export function nearParts(heights: readonly number[], from: number, to: number): Near {
  const whole = heights.reduce((sum, height) => sum + height, 0);
  let [first, above] = [0, 0];
  while (first < heights.length - 1 && above + (heights[first] ?? 0) <= from) above += heights[first++] ?? 0;
  let [last, end] = [first, above + (heights[first] ?? 0)];
  while (last < heights.length - 1 && end < to) end += heights[++last] ?? 0;
  return { first, last, above, below: whole - end };
}
