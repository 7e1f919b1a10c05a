import { expect, test } from "bun:test";
import { alarmsOf } from "./alarms.ts";
import { constantOf, mainPlot, panelsOf } from "./panels.ts";
import type { JobEvent, Point } from "./types.ts";

const point = (step: number, values: Record<string, number>): Point => ({
  step,
  epoch: 0,
  time: new Date(step * 1_000).toISOString(),
  values,
});
const event = (level: string, data: object, second = 0): JobEvent =>
  ({ level, type: "truncation", message: "m", data, created_at: new Date(second * 1_000).toISOString() }) as JobEvent;

test("the large curve is the reward with its band, else the margin, else the loss", () => {
  const grpo = mainPlot([point(1, { reward: 0.5, reward_std: 0.1, loss: 2 }), point(2, { reward: 1, reward_std: 0 })]);
  expect(grpo).toMatchObject({ title: "Reward", x: [1, 2], series: [{ label: "mean", values: [0.5, 1] }] });
  expect(grpo?.series[0]?.band).toEqual({ low: [0.4, 1], high: [0.6, 1] });
  expect(mainPlot([point(1, { "rewards/margins": 1, loss: 2 })])?.title).toBe("Reward margin");
  expect(mainPlot([point(1, { loss: 2 })])?.title).toBe("Loss");
  expect(mainPlot([])).toBeUndefined();
});

test("a thinned run bridges the band where its spread was left out", () => {
  const points = [
    point(1, { reward: 0, reward_std: 1 }),
    point(2, { reward: 4 }),
    point(3, { reward: 2, reward_std: 3 }),
  ];
  expect(mainPlot(points)?.series[0]?.band).toEqual({ low: [-1, 2, -1], high: [1, 6, 5] });
});

const titles = (points: Point[]) =>
  panelsOf(points).flatMap(({ title, plots }) => (plots.length > 0 ? [[title, plots.map((plot) => plot.title)]] : []));

test("panels without data are left out, and the large curve is not shown twice", () => {
  expect(titles([point(1, { loss: 1, step_time: 2 })])).toEqual([["Speed", ["Seconds a step"]]]);
  expect(titles([point(1, { reward: 1, loss: 1 })])).toEqual([["Learning", ["Loss"]]]);
});

test("the parts of a step have a curve each, and energy that was not measured says why", () => {
  const split = { step_time: 3, rollout_time: 1, reward_time: 0.5, update_time: 1, other_time: 0.5 };
  expect(titles([point(1, split)])).toEqual([["Speed", ["Seconds a step", "Parts of a step (s)"]]]);
  const energy = (values: Record<string, number>) =>
    panelsOf([point(1, values)]).find(({ title }) => title === "Energy");
  expect(energy(split)).toMatchObject({ plots: [], missing: expect.stringContaining("no measured energy") });
  expect(energy({ power_watts: 300, step_energy_joules: 600 })?.plots.map(({ title }) => title)).toEqual([
    ...["Joules a step", "Power (W)"],
  ]);
  expect(panelsOf([])).toEqual([]);
});

test("several reward functions have a curve each; one alone has none", () => {
  expect(titles([point(1, { "rewards/a/mean": 1 })])).toEqual([]);
  const [parts] = panelsOf([point(1, { "rewards/a/b/mean": 1, "rewards/c/mean": 2, "rewards/c/std": 0 })]);
  expect(parts?.plots[0]?.series.map(({ label }) => label)).toEqual(["a/b", "c"]);
});

test("a plot that never changes is a figure", () => {
  const [still] = panelsOf([point(1, { kl: 0 }), point(2, { kl: 0 })])[0]?.plots ?? [];
  const [moving] = panelsOf([point(1, { kl: 0 }), point(2, { kl: 1 })])[0]?.plots ?? [];
  expect([still && constantOf(still), moving && constantOf(moving)]).toEqual([0, undefined]);
});

test("an alarm lies at the step that it names, else at the last step before it", () => {
  const points = [point(1, {}), point(2, {}), point(3, {})];
  const events = [event("warn", {}, 2), event("warn", { step: 1 }), event("info", { step: 2 }), event("error", {}, 0)];
  expect(alarmsOf(events, points).map(({ step }) => step)).toEqual([1, 2]);
});
