/** Use by day and group, as bars, as a table and as a file. Pure. */
import type { CostByUse } from "../../../resources/money/cost/schema.ts";
import { count, money, number } from "../../data/format.ts";
import { csvCell } from "../../kit/chart/save.ts";
import type { Series } from "../../kit/chart/series.ts";

export type Group = CostByUse["data"][number];
type Figures = CostByUse["total"];

type MeasureSpec = { title: string; unit: string; of: (figures: Figures) => number; show: (value: number) => string };

export const MEASURES = {
  cost: { title: "Cost", unit: "dollars", of: (use) => use.cost_usd, show: money },
  tokens: {
    title: "Tokens",
    unit: "tokens read and generated",
    of: (use) => use.prompt_tokens + use.completion_tokens,
    show: count,
  },
  requests: { title: "Requests", unit: "requests", of: (use) => use.requests, show: count },
  hours: { title: "Device hours", unit: "hours", of: (use) => use.device_hours, show: (value) => `${number(value)} h` },
  runs: { title: "Runs", unit: "runs", of: (use) => use.jobs, show: count },
} as const satisfies Record<string, MeasureSpec>;
export type Measure = keyof typeof MEASURES;
export const isMeasure = (text: string): text is Measure => Object.hasOwn(MEASURES, text);

const TOKENS = ["--c1", "--c2", "--c3", "--c4", "--c6", "--c5"] as const;
const DAY_S = 86_400;

/** Groups as bars, one for each day of the period: the largest have a colour of their own, the rest share one. */
export function barsOf(
  { first_day: first, last_day: last, data }: Pick<CostByUse, "first_day" | "last_day" | "data">,
  measure: Measure,
  nameOf: (group: Group) => string,
): { x: number[]; series: Series[] } {
  const { of } = MEASURES[measure];
  const start = Date.parse(first) / 1000;
  const n = Math.round((Date.parse(last) / 1000 - start) / DAY_S) + 1;
  const x = Array.from({ length: n }, (_, i) => start + i * DAY_S);
  const used = data.filter((group) => of(group) > 0).sort((a, b) => of(b) - of(a));
  const own = used.filter(({ is_others: isOthers }) => !isOthers).slice(0, TOKENS.length - 1);
  const rest = used.filter((group) => !own.includes(group));
  const valuesOf = (groups: readonly Group[]) => {
    const values = x.map(() => 0);
    for (const { days } of groups)
      for (const day of days) {
        const i = Math.round((Date.parse(day.day) / 1000 - start) / DAY_S);
        if (i >= 0 && i < n) values[i] = (values[i] ?? 0) + of(day);
      }
    return values;
  };
  const series = own.map((group, i) => ({ label: nameOf(group), token: TOKENS[i], values: valuesOf([group]) }));
  const others = { label: "Others", token: TOKENS.at(-1), values: valuesOf(rest) };
  return { x, series: unique(rest.length === 0 ? series : [...series, others]) };
}

/** A chart tells its series apart by their names. */
function unique(series: readonly Series[]): Series[] {
  const seen = new Map<string, number>();
  return series.map((each) => {
    const n = (seen.get(each.label) ?? 0) + 1;
    seen.set(each.label, n);
    return n === 1 ? each : { ...each, label: `${each.label} (${n})` };
  });
}

const COLUMNS = [
  "requests",
  "prompt_tokens",
  "cached_tokens",
  "completion_tokens",
  "jobs",
  "device_hours",
  "cost_usd",
  "tokens_usd",
] as const;

/** One line for each day and group with use. */
export function csvOf(data: readonly Group[], by: string, nameOf: (group: Group) => string): string {
  const rows = data
    .flatMap((group) =>
      group.days.map((day) => [
        day.day,
        csvCell(group.group ?? ""),
        csvCell(nameOf(group)),
        ...COLUMNS.map((name) => day[name]),
      ]),
    )
    .sort(([a = ""], [b = ""]) => (a < b ? -1 : a > b ? 1 : 0));
  return [["day", by, "name", ...COLUMNS], ...rows].map((row) => `${row.join()}\r\n`).join("");
}
