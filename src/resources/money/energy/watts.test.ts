import { expect, test } from "bun:test";
import { closed, type Meter, meanWatts, read, wattHours } from "./watts.ts";

const NEW: Meter = { runSince: 10_000, energyJoules: null, energyWatts: null, energyAt: null };

test("the first reading counts from the start of the run, the next ones in a straight line", () => {
  const first = read(NEW, 100, 15_000); // 5 s × 100 W
  expect(first).toEqual({ counted: { energyJoules: 500, energyWatts: 100, energyAt: 15_000 }, joules: 500, ms: 5_000 });
  const second = read({ ...NEW, ...first.counted }, 300, 25_000); // 10 s × (100 + 300) / 2
  expect(second.counted).toEqual({ energyJoules: 2_500, energyWatts: 300, energyAt: 25_000 });
  expect(closed({ ...NEW, ...second.counted }, 27_000)).toEqual({
    energyJoules: 3_100, // 2 s × 300 W
    energyWatts: null,
    energyAt: 27_000,
  });
});

test("a later run continues from the sum, and the time between the runs is not counted", () => {
  const resumed = { runSince: 100_000, energyJoules: 3_100, energyWatts: 300, energyAt: 27_000 };
  expect(read(resumed, 50, 102_000).counted.energyJoules).toBe(3_200);
  expect(closed(resumed, 104_000)).toEqual({}); // it was never read
});

test("a clock that goes back adds nothing, and nothing is counted twice", () => {
  const meter = { runSince: 0, energyJoules: 700, energyWatts: 100, energyAt: 7_000 };
  expect(read(meter, 100, 6_000)).toMatchObject({ joules: 0, counted: { energyJoules: 700, energyAt: 7_000 } });
  expect(closed(meter, 6_000)).toMatchObject({ energyJoules: 700, energyAt: 7_000 });
});

test("watt-hours have three digits, mean watts need ten minutes", () => {
  expect(wattHours(null)).toBeNull();
  expect(wattHours(3_600)).toBe(1);
  expect(wattHours(100)).toBe(0.028);
  expect(meanWatts(30_000, 599_999)).toBeUndefined();
  expect(meanWatts(180_000, 600_000)).toBe(300);
});
