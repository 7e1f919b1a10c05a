/** Statistics of rows that stream by: types, lengths and frequent values of each column, and equal rows. Pure. */
import type { Row } from "./format.ts";
import { isRow } from "./messages.ts";

export const VALUE_TYPES = ["text", "number", "boolean", "list", "object", "null"] as const;
type ValueType = (typeof VALUE_TYPES)[number];

export type ColumnStatistics = {
  name: string;
  /** Rows that have the column. */
  present: number;
  types: { type: ValueType; count: number }[];
  /** Characters of the texts in the values. Null: the column has numbers and truth values alone. */
  length: Spread | null;
  /** Null: no value is a number. */
  number: Spread | null;
  /** Null: more than are counted. */
  distinct: number | null;
  /** The most frequent values, if some occur more than once. */
  frequent: { value: string; count: number }[];
};
type Spread = { min: number; mean: number; max: number; histogram: { from: number; to: number; count: number }[] };
export type RowStatistics = { rows: number; duplicates: number; columns: ColumnStatistics[]; columns_left_out: number };

const MOST_COLUMNS = 64;
const MOST_VALUES = 5_000; // of a column, counted one by one
const LONGEST_VALUE = 80;
const SHOWN_VALUES = 10;
const BARS = 12;
const LARGEST = 1e100; // the width of a bar must stay a number
const EXACT = 4_096; // numbers that are kept before their range decides the bars

export function createStatistics() {
  const columns = new Map<string, ReturnType<typeof createColumn>>();
  const leftOut = new Set<string>();
  const hashes = new Set<number | bigint>();
  let rows = 0;
  let duplicates = 0;
  return {
    /** `hash`: of the bytes of the row. */
    add(row: Row, hash: number | bigint) {
      rows++;
      if (hashes.has(hash)) duplicates++;
      else hashes.add(hash);
      for (const [name, value] of Object.entries(row)) {
        let column = columns.get(name);
        if (!column && columns.size >= MOST_COLUMNS) {
          if (leftOut.size < MOST_COLUMNS) leftOut.add(name);
          continue;
        }
        column ??= createColumn();
        columns.set(name, column);
        column.add(value);
      }
    },
    result: (): RowStatistics => ({
      rows,
      duplicates,
      columns: [...columns].map(([name, column]) => ({ name, ...column.result() })),
      columns_left_out: leftOut.size,
    }),
  };
}

function createColumn() {
  const types = new Map<ValueType, number>();
  const values = new Map<string, number>();
  const [lengths, numbers] = [createSpread(), createSpread()];
  let present = 0;
  let isCounting = true;
  return {
    add(value: unknown) {
      present++;
      const type = typeOf(value);
      types.set(type, (types.get(type) ?? 0) + 1);
      if (typeof value === "number") numbers.add(value);
      else if (type === "text" || type === "list" || type === "object") lengths.add(lengthOf(value));
      if (!isCounting || type === "list" || type === "object" || type === "null") return;
      const text = String(value).slice(0, LONGEST_VALUE);
      if (!values.has(text) && values.size >= MOST_VALUES) {
        isCounting = false;
        values.clear();
      } else values.set(text, (values.get(text) ?? 0) + 1);
    },
    result: (): Omit<ColumnStatistics, "name"> => ({
      present,
      types: [...types].map(([type, count]) => ({ type, count })).sort((a, b) => b.count - a.count),
      length: lengths.result(),
      number: numbers.result(),
      distinct: isCounting && !types.has("list") && !types.has("object") ? values.size : null,
      frequent: [...values]
        .filter(([, count]) => count > 1)
        .sort((a, b) => b[1] - a[1])
        .slice(0, SHOWN_VALUES)
        .map(([value, count]) => ({ value, count })),
    }),
  };
}

function typeOf(value: unknown): ValueType {
  if (value === null || value === undefined) return "null";
  if (Array.isArray(value)) return "list";
  if (typeof value === "number" || typeof value === "boolean") return typeof value as ValueType;
  return typeof value === "string" ? "text" : "object";
}

const NO_TEXTS = ["role", "type", "id"];

/** Characters of the texts inside. Roles of messages and types of parts do not count. */
export function lengthOf(value: unknown): number {
  if (typeof value === "string") return value.length;
  if (Array.isArray(value)) return value.reduce<number>((sum, each) => sum + lengthOf(each), 0);
  if (!isRow(value)) return 0;
  return Object.entries(value).reduce((sum, [name, each]) => sum + (NO_TEXTS.includes(name) ? 0 : lengthOf(each)), 0);
}

/** Bars of equal width over the range. The first numbers are kept; later ones outside the range widen it. */
function createSpread() {
  const kept: number[] = [];
  let bars: { from: number; width: number; counts: number[] } | undefined;
  let [count, sum, min, max] = [0, 0, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  const place = (n: number) => {
    if (!bars) bars = barsOf(min, max);
    while (n < bars.from || n >= bars.from + bars.width * BARS) bars = widened(bars, n);
    const i = Math.min(BARS - 1, Math.floor((n - bars.from) / bars.width));
    bars.counts[i] = (bars.counts[i] ?? 0) + 1;
  };
  return {
    add(n: number) {
      if (!(Math.abs(n) <= LARGEST)) return;
      count++;
      sum += n;
      min = Math.min(min, n);
      max = Math.max(max, n);
      if (bars) place(n);
      else if (kept.push(n) >= EXACT) kept.splice(0).forEach(place);
    },
    result(): Spread | null {
      if (count === 0) return null;
      kept.splice(0).forEach(place);
      const { from, width, counts } = bars ?? barsOf(min, max);
      const histogram = counts.map((n, i) => ({ from: from + i * width, to: from + (i + 1) * width, count: n }));
      return { min, mean: sum / count, max, histogram: trimmed(histogram) };
    },
  };
}

const EMPTY = () => Array.from({ length: BARS }, () => 0);

/** A whole width for whole numbers, so that each bar has as many values as the others. */
function barsOf(min: number, max: number) {
  const isWhole = Number.isInteger(min) && Number.isInteger(max);
  const range = isWhole ? max - min + 1 : (max - min) * (1 + 1e-9);
  const width = isWhole ? Math.ceil(range / BARS) : range / BARS;
  return { from: min, width: width > 0 ? width : 1, counts: EMPTY() };
}

/** Twice as wide: two bars become one. */
function widened({ from, width, counts }: { from: number; width: number; counts: number[] }, towards: number) {
  const isLow = towards < from;
  const next = { from: isLow ? from - width * BARS : from, width: width * 2, counts: EMPTY() };
  for (const [i, n] of counts.entries()) {
    const at = Math.floor((isLow ? i + BARS : i) / 2);
    next.counts[at] = (next.counts[at] ?? 0) + n;
  }
  return next;
}

/** Without the empty bars at both ends. */
function trimmed<T extends { count: number }>(bars: readonly T[]): T[] {
  const last = bars.findLastIndex(({ count }) => count > 0);
  return bars.slice(
    bars.findIndex(({ count }) => count > 0),
    last + 1,
  );
}
