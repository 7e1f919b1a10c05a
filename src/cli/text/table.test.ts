import { expect, test } from "bun:test";
import { relativeTime, tableLines } from "./table.ts";

const NOW = Date.parse("2026-11-16T12:00:00.000Z");
const HEADER = ["ID", "NAME", "STATUS", "MODEL", "CREATED"];
const id = (end: string) => `job_01m7j3a5vde1ktezejb3296k${end}`;
const ROWS = [
  [id("a1"), "sums", "completed", "Qwen/Qwen2.5-0.5B-Instruct-GGUF:Q4_K_M", "2026-11-16T11:52:00.000Z"],
  [
    "job_01m7j3b9xpq86kvjr5hr1qsnmh",
    "a rather long name of a job, longer than others",
    "failed",
    "verk-tiny",
    "2026-11-14T11:52:00.000Z",
  ],
];

test.each([60, 80, 110])("F27 at a terminal of %d columns no line is wider", (width) => {
  for (const line of tableLines(HEADER, ROWS, { width, full: false, nowMs: NOW }))
    expect(Bun.stringWidth(line)).toBeLessThanOrEqual(width);
});

test("F27 a pipe gets whole ids, whole texts and times of ISO 8601, without colour", () => {
  const text = tableLines(HEADER, ROWS, { full: false, color: true, nowMs: NOW }).join("\n");
  for (const cell of ROWS.flat()) expect(text).toContain(cell);
  expect(text).not.toContain("\x1b");
});

test("F27 an id is as short as it stays unambiguous, and whole with --full", () => {
  const near = [
    [id("a1"), "x"],
    [id("a2"), "y"],
    ["job_02m7j3b9xpq86kvjr5hr1qsnmh", "z"],
  ];
  const idsOf = (full: boolean) =>
    tableLines(["ID", "NAME"], near, { width: 100, full, nowMs: NOW })
      .slice(1)
      .map((line) => line.split(" ")[0]);
  expect(idsOf(false)).toEqual([id("a1"), id("a2"), "job_02m7j3b9"]);
  expect(idsOf(true)).toEqual(near.map(([each]) => each));
});

test("F27 times are relative, and the status has a colour", () => {
  const [, first = "", second = ""] = tableLines(HEADER, ROWS, { width: 120, color: true, full: false, nowMs: NOW });
  expect(first).toContain("8 min ago");
  expect(second).toContain("2 days ago");
  expect(first).toContain("\x1b[32mcompleted\x1b[0m");
  expect(second).toContain("\x1b[31mfailed\x1b[0m");
});

test.each([
  ["2026-11-16T11:59:59.500Z", "now"],
  ["2026-11-16T11:59:18.000Z", "42 s ago"],
  ["2026-11-16T09:00:00.000Z", "3 h ago"],
  ["2026-11-15T11:00:00.000Z", "1 day ago"],
  ["2026-11-16T13:00:00.000Z", "in 1 h"],
])("F27 %s is %s", (iso, words) => {
  expect(relativeTime(iso, NOW)).toBe(words);
});

test("F19 at 80 columns names are cut first, then ids; status, step and figure stay whole", () => {
  const header = ["ID", "RESULT", "STATUS", "METHOD", "MODEL", "STEP", "HEADLINE", "CREATED"];
  const row = [
    id("a1"),
    "a-rather-long-name-of-a-result",
    "completed",
    "grpo",
    "Qwen/Qwen2.5-0.5B-Instruct",
    "150/150",
    "reward 0.9375",
    "2026-11-16T11:43:00.000Z",
  ];
  const [, line = ""] = tableLines(header, [row], { width: 80, full: false, nowMs: NOW });
  expect(Bun.stringWidth(line)).toBeLessThanOrEqual(80);
  for (const cell of ["completed", "150/150", "reward 0.9375", "17 min ago"]) expect(line).toContain(cell);
});
