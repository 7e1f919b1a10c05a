import { expect, test } from "bun:test";
import { barsOf, csvOf, type Group } from "./uses.ts";

const figures = (requests: number) => ({
  requests,
  prompt_tokens: requests * 10,
  cached_tokens: 0,
  completion_tokens: requests,
  jobs: 0,
  device_hours: 0,
  cost_usd: requests / 100,
  tokens_usd: 0,
});
const group = (name: string | null, days: readonly [string, number][], isOthers = false): Group => ({
  group: name,
  is_others: isOthers,
  ...figures(days.reduce((sum, [, n]) => sum + n, 0)),
  days: days.map(([day, n]) => ({ day, ...figures(n) })),
});
const nameOf = ({ group: name }: Group) => name ?? "No key";
const PERIOD = { first_day: "2026-01-30", last_day: "2026-02-01" };

test("each day of the period has a bar, and groups behind the fifth share one", () => {
  const data = [
    group("a", [["2026-01-30", 8]]),
    ...["b", "c", "d", "e", "f"].map((name, i) => group(name, [["2026-02-01", 5 - i]])),
    group(null, [["2026-01-31", 1]], true),
  ];
  const { x, series } = barsOf({ ...PERIOD, data }, "requests", nameOf);
  expect(x.map((at) => new Date(at * 1000).toISOString().slice(0, 10))).toEqual([
    "2026-01-30",
    "2026-01-31",
    "2026-02-01",
  ]);
  expect(series.map(({ label, values }) => [label, values])).toEqual([
    ["a", [8, 0, 0]],
    ["b", [0, 0, 5]],
    ["c", [0, 0, 4]],
    ["d", [0, 0, 3]],
    ["e", [0, 0, 2]],
    ["Others", [0, 1, 1]],
  ]);
  const same = [group("x", [["2026-01-30", 2]]), group("y", [["2026-01-30", 1]])];
  expect(barsOf({ ...PERIOD, data: same }, "cost", () => "z").series.map(({ label }) => label)).toEqual(["z", "z (2)"]);
  expect(barsOf({ ...PERIOD, data: same }, "runs", nameOf).series).toEqual([]);
});

test("the file has one line for each day and group, and no formula of a user", () => {
  const data = [group("key_2", [["2026-01-31", 2]]), group(null, [["2026-01-30", 1]])];
  expect(csvOf(data, "key", ({ group: id }) => (id === null ? "No key" : "=1+1"))).toBe(
    [
      "day,key,name,requests,prompt_tokens,cached_tokens,completion_tokens,jobs,device_hours,cost_usd,tokens_usd",
      "2026-01-30,,No key,1,10,0,1,0,0,0.01,0",
      "2026-01-31,key_2,'=1+1,2,20,0,2,0,0,0.02,0",
      "",
    ].join("\r\n"),
  );
});
