import { expect, test } from "bun:test";
import { expiresSoon, formatDuration, isoTime, parseDuration } from "./time.ts";

test.each([
  [0, "0 ms"],
  [999, "999 ms"],
  [4200, "4.2 s"],
  [59_999, "1 min"],
  [185_000, "3 min 5 s"],
  [3_600_000, "1 h"],
  [7_800_000, "2 h 10 min"],
  [273_600_000, "3 d 4 h"],
  [-1500, "-1.5 s"],
])("%d ms read %p", (ms, text) => expect(formatDuration(ms)).toBe(text));

test.each([
  ["250ms", 250],
  ["90s", 90_000],
  ["1h30m", 5_400_000],
  ["2 d", 172_800_000],
  ["1.5 s", 1500],
] as const)("%p is %d ms", (text, ms) => expect(parseDuration(text)).toBe(ms));

test.each(["", "5", "s", "1 week", "-1s", "1h x"])("%p is no duration", (text) =>
  expect(parseDuration(text)).toBeUndefined(),
);

test.each([
  ["a year, 31 days before its end", 365, 334, false],
  ["a year, 30 days before its end", 365, 335, true],
  ["a year, after its end", 365, 365, false],
  ["eight days, in its first days", 8, 5, false],
  ["eight days, in its last quarter", 8, 6, true],
] as const)("a life of %s: soon is what a person can still act on", (_, life, age, soon) => {
  const day = 86_400_000;
  expect(expiresSoon(0, life * day, age * day)).toBe(soon);
  expect(expiresSoon(0, null, age * day)).toBeFalse();
});

test("time is shown in UTC with milliseconds", () => expect(isoTime(0)).toBe("1970-01-01T00:00:00.000Z"));

test("the API's time is what Date would write, at any moment", () => {
  const edges = [
    0,
    -1,
    1,
    999,
    1000,
    86_399_999,
    86_400_000,
    Date.UTC(2024, 1, 29, 23, 59, 59, 999),
    Date.UTC(9999, 11, 31),
  ];
  for (let i = 0; i < 2000; i++) edges.push(Math.floor((i / 2000) * 4e12) + i * 7919);
  for (const ms of edges) expect(isoTime(ms)).toBe(new Date(ms).toISOString());
});
