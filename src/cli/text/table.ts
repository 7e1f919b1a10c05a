/** Tables for people: at a terminal they fit its width, with short ids, relative times and coloured status. */
export type TableStyle = {
  /** Columns of the terminal. Undefined: the table goes to a file or a program and keeps every character. */
  width?: number | undefined;
  color?: boolean;
  /** Keep whole ids. Undefined: the commands of this table take no short id. */
  full?: boolean | undefined;
  nowMs: number;
};

const COLORS: Record<string, number> = {
  ...Object.fromEntries(["serving", "completed", "ready", "active", "enabled", "running"].map((word) => [word, 32])),
  ...Object.fromEntries(["failed", "unhealthy", "disabled", "missing", "invalid"].map((word) => [word, 31])),
  ...Object.fromEntries(
    ["stopped", "cancelled", "expired", "revoked", "suspended", "deleted"].map((word) => [word, 2]),
  ),
};
const WAITING = 33;

const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/;
const ID = /^[a-z]+_[0-9a-z]{26}$/;
const SHORTEST_ID = 8;
const NARROWEST = 6;
const GAP = 2;

export function tableLines(
  header: readonly string[],
  rows: readonly (readonly string[])[],
  style: TableStyle,
): string[] {
  const { width, color = false, full, nowMs } = style;
  if (width === undefined) return aligned([header, ...rows]);
  const spoken = rows.map((row) => row.map((cell) => (ISO.test(cell) ? relativeTime(cell, nowMs) : cell)));
  const cells = [header, ...(full === false ? withShortIds(spoken) : spoken)];
  const fitted = fit(cells, width, tiersOf(header, full === false));
  const status = header.indexOf("STATUS");
  const painted = fitted.map((row, i) =>
    row.map((cell, at) => (!color ? cell : i === 0 ? `\x1b[1m${cell}\x1b[0m` : at === status ? painted1(cell) : cell)),
  );
  return aligned(painted);
}

const painted1 = (cell: string) => `\x1b[${COLORS[cell] ?? WAITING}m${cell}\x1b[0m`;

/** Rows as lines with aligned columns. */
export function aligned(rows: readonly (readonly string[])[], gap = " ".repeat(GAP)): string[] {
  const widths = widthsOf(rows);
  const pad = (cell: string, i: number) => cell + " ".repeat(widths[i]! - Bun.stringWidth(cell));
  return rows.map((row) => row.map(pad).join(gap).trimEnd());
}

function widthsOf(rows: readonly (readonly string[])[]): number[] {
  const widths: number[] = [];
  for (const row of rows)
    for (const [i, cell] of row.entries()) widths[i] = Math.max(widths[i] ?? 0, Bun.stringWidth(cell));
  return widths;
}

/** Columns whose beginning says nothing: they are cut last. */
const FIGURES = [
  "STATUS",
  "STEP",
  "HEADLINE",
  "REWARD",
  "SCORE",
  "SIZE",
  "PARAMETERS",
  "REQUESTS",
  "TOKENS",
  "CREATED",
  "LAST REQUEST",
];
/** Columns by the order in which they are cut. */
type Tiers = readonly (readonly number[])[];

/** Names and texts are cut first, then ids that a command also takes when they are cut, then figures. */
function tiersOf(header: readonly string[], hasShortIds: boolean): Tiers {
  const tierOf = (name: string, i: number) =>
    i === 0 && name === "ID" ? (hasShortIds ? 1 : 2) : FIGURES.includes(name) ? 2 : 0;
  return [0, 1, 2].map((tier) => header.flatMap((name, i) => (tierOf(name, i) === tier ? [i] : [])));
}

/** Cuts the widest columns of the first tier until a row fits, then those of the next. */
function fit(rows: readonly (readonly string[])[], width: number, tiers: Tiers): string[][] {
  const widths = widthsOf(rows);
  let over = widths.reduce((sum, each) => sum + each, 0) + GAP * (widths.length - 1) - width;
  for (const tier of tiers)
    for (; over > 0; over--) {
      const widest = tier.reduce((best, i) => ((widths[i] ?? 0) > (widths[best] ?? 0) ? i : best), tier[0] ?? -1);
      if ((widths[widest] ?? 0) <= NARROWEST) break;
      widths[widest] = (widths[widest] ?? 0) - 1;
    }
  return rows.map((row) => row.map((cell, i) => cutTo(cell, widths[i] ?? 0)));
}

const letters = new Intl.Segmenter();

/** Cuts by display width: a character may take two columns or none. */
export function cutTo(text: string, width: number): string {
  if (Bun.stringWidth(text) <= width) return text;
  let [shown, left] = ["", width - 1];
  for (const { segment } of letters.segment(text)) {
    left -= Bun.stringWidth(segment);
    if (left < 0) break;
    shown += segment;
  }
  return `${shown}…`;
}

/** The shortest beginning of each id that no other id of the table has. */
function withShortIds(rows: readonly (readonly string[])[]): string[][] {
  const ids = rows.flatMap((row) => row.slice(0, 1).filter((cell) => ID.test(cell)));
  return rows.map(([first = "", ...rest]) => [ids.includes(first) ? shortId(first, ids) : first, ...rest]);
}

function shortId(id: string, all: readonly string[]): string {
  const others = all.filter((each) => each !== id);
  const prefix = id.indexOf("_") + 1;
  for (let length = prefix + SHORTEST_ID; length < id.length; length++) {
    const short = id.slice(0, length);
    if (!others.some((each) => each.startsWith(short))) return short;
  }
  return id;
}

const UNITS: [name: string, ms: number][] = [
  ["day", 86_400_000],
  ["h", 3_600_000],
  ["min", 60_000],
  ["s", 1000],
];

/** `8 min ago`, `in 2 h`, `3 days ago`. */
export function relativeTime(iso: string, nowMs: number): string {
  const gap = Date.parse(iso) - nowMs;
  const [unit = "s", ms = 1000] = UNITS.find(([, size]) => Math.abs(gap) >= size) ?? [];
  const amount = Math.floor(Math.abs(gap) / ms);
  if (amount === 0) return "now";
  const words = `${amount} ${unit}${unit === "day" && amount > 1 ? "s" : ""}`;
  return gap < 0 ? `${words} ago` : `in ${words}`;
}
