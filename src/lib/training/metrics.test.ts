import { describe, expect, test } from "bun:test";
import { openRandom } from "../random.ts";
import { completionMetrics, createThinner, groupOf, type MetricPoint, type Range } from "./metrics.ts";

test("lengths of completions: of all, and of those that ended", () => {
  const completions = [
    { tokens: 10, truncated: true },
    { tokens: 4, truncated: false },
    { tokens: 2, truncated: false },
    { tokens: 8, truncated: false },
  ];
  expect(completionMetrics(completions)).toEqual({
    "completions/mean_length": 6,
    "completions/min_length": 2,
    "completions/max_length": 10,
    "completions/clipped_ratio": 0.25,
    "completions/mean_terminated_length": 14 / 3,
    "completions/min_terminated_length": 2,
    "completions/max_terminated_length": 8,
  });
  expect(completionMetrics([{ tokens: 3, truncated: true }])["completions/max_terminated_length"]).toBe(0);
  expect(completionMetrics([])).toEqual({});
});

describe("thinning", () => {
  const point = (step: number, values: Record<string, number>): MetricPoint => ({
    step,
    epoch: step / 100,
    time: new Date(step * 1000).toISOString(),
    values,
  });
  const run = (steps: number) => {
    const random = openRandom(4);
    return Array.from({ length: steps }, (_, i) =>
      point(i, i % 3 === 0 ? { loss: random(), reward: random() } : { loss: random() }),
    );
  };
  const thin = (points: readonly MetricPoint[], most: number) => {
    const groups = new Map<string, number>();
    const ranges = new Map<string, Range>();
    for (const point of points) {
      const group = groupOf(point, groups);
      groups.set(group, (groups.get(group) ?? 0) + 1);
      for (const [key, value] of Object.entries(point.values)) {
        const { least, greatest } = ranges.get(key) ?? { least: value, greatest: value };
        ranges.set(key, { least: Math.min(least, value), greatest: Math.max(greatest, value) });
      }
    }
    const thinner = createThinner({ groups, ranges }, most);
    for (const each of points) thinner.add(each);
    return thinner.end();
  };
  const series = (points: readonly MetricPoint[], key: string) =>
    points.flatMap(({ values }) => (values[key] === undefined ? [] : [values[key]]));

  test("a short run stays as it is", () => {
    const points = run(20);
    expect(thin(points, 20)).toEqual(points);
  });

  test("by hand: eight steps to six values keep both ends and the extremes of two buckets, at their steps", () => {
    const points = [5, 1, 9, 2, 3, 8, 4, 6].map((loss, step) => point(step, { loss }));
    // between the ends: 1 9 2 | 3 8 4
    const kept = thin(points, 6);
    expect(kept.map(({ step, values }) => [step, values["loss"]])).toEqual([
      [0, 5],
      [1, 1],
      [2, 9],
      [4, 3],
      [5, 8],
      [7, 6],
    ]);
  });

  test("no more points come than requested, each is whole, and extremes survive", () => {
    const points = run(5000);
    points[2500]!.values["loss"] = 1e6;
    points[3001]!.values["loss"] = -1e6;
    for (const most of [1, 2, 3, 4, 7, 100, 999]) {
      const kept = thin(points, most);
      expect(kept.length).toBeLessThanOrEqual(most);
      for (const { step, values } of kept) expect(points[step]!.values).toEqual(values);
      expect(kept.map(({ step }) => step)).toEqual([...new Set(kept.map(({ step }) => step))].sort((a, b) => a - b));
      if (most < 4) continue;
      expect(series(kept, "loss")).toContain(1e6);
      expect(series(kept, "loss")).toContain(-1e6);
      if (most >= 100) expect(series(kept, "reward")).toContain(Math.max(...series(points, "reward")));
      expect(kept.at(-1)?.step).toBe(4999);
    }
  });

  test("a key that few points have keeps its values beside keys of every step", () => {
    const points = Array.from({ length: 5000 }, (_, i) =>
      point(i, i % 500 === 0 ? { loss: i % 7, eval_loss: i } : { loss: i % 7 }),
    );
    const kept = thin(points, 100);
    expect(kept.length).toBeLessThanOrEqual(100);
    expect(series(kept, "eval_loss")).toEqual(series(points, "eval_loss"));
    expect(series(kept, "loss").length).toBeGreaterThan(80);
  });
});
