import { expect, test } from "bun:test";
import type { Figure } from "../bench/tools.ts";
import { gainOf, ratioOf, tableOf } from "./bench_figures.ts";

const rate: Figure = { name: "reads", value: 1_000, unit: "/s" };
const time: Figure = { name: "start", value: 200, unit: "ms" };
const size: Figure = { name: "memory", value: 90, unit: "MB" };

test("a machine of half the speed has the same ratios", () => {
  expect(ratioOf({ ...rate, value: 500 }, 0.5)).toBe(ratioOf(rate, 1));
  expect(ratioOf({ ...time, value: 400 }, 0.5)).toBe(ratioOf(time, 1));
  const work: Figure = { name: "work", value: 200, unit: "µs" };
  expect(ratioOf({ ...work, value: 400 }, 0.5)).toBe(ratioOf(work, 1));
  expect(ratioOf(size, 0.5)).toBe(ratioOf(size, 1));
});

test("more is better for rates, less for times and sizes", () => {
  expect(gainOf("/s", 100, 120)).toBeCloseTo(0.2);
  expect(gainOf("ms", 120, 100)).toBeCloseTo(0.2);
  expect(gainOf("MB", 100, 125)).toBeCloseTo(-0.2);
});

test("the table marks what moved by more than noise, and what is new", () => {
  const kept = (figure: Figure, value: number) => ({ ...figure, value, ratio: ratioOf({ ...figure, value }, 1) });
  const figures = { reads: kept(rate, 1_100), start: kept(time, 150) };
  const measured = [rate, time, size].map((figure) => ({ ...figure, speed: 1 }));
  const table = tableOf(measured, { version: "0.1.0", speed: 1, figures });
  expect(table).toContain("| reads | 1100/s | 1000/s | -9 % |");
  expect(table).toContain("| start | 150 ms | 200 ms | **-25 %, worse** |");
  expect(table).toContain("| memory | | 90 MB | new |");
});

test("each figure goes with the speed that the machine had around its benchmark", () => {
  const figures = {
    reads: { value: 1_000, unit: "/s", ratio: 1_000 },
    start: { value: 200, unit: "ms", ratio: 200 },
  } as const;
  const now = [
    { ...rate, value: 500, speed: 0.5 }, // others were busy then
    { ...time, speed: 1 },
  ];
  const table = tableOf(now, { version: "0.1.0", speed: 1, figures });
  expect(table).toContain("| reads | 1000/s | 500/s | +0 % |");
  expect(table).toContain("| start | 200 ms | 200 ms | +0 % |");
});
