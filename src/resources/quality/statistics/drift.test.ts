import { describe, expect, test } from "bun:test";
import { ks, psi } from "./drift.ts";

const range = (n: number, at: (i: number) => number) => Array.from({ length: n }, (_, i) => at(i));

describe("PSI", () => {
  test("of equal distributions is 0, whatever the sizes", () => {
    expect(
      psi(
        range(100, (i) => i),
        range(100, (i) => i),
      ),
    ).toBe(0);
    expect(
      psi(
        range(50, (i) => i % 5),
        range(500, (i) => i % 5),
      ),
    ).toBeCloseTo(0, 12);
  });

  test("of two values is the sum by hand: (0.2 - 0.1) ln 2 + (0.8 - 0.9) ln (0.8 / 0.9)", () => {
    const reference = range(100, (i) => (i < 10 ? 0 : 1));
    const current = range(100, (i) => (i < 20 ? 0 : 1));
    expect(psi(current, reference)).toBeCloseTo(0.1 * Math.log(2) - 0.1 * Math.log(0.8 / 0.9), 12);
  });

  test("of ten deciles is the sum by hand, when half of the mass has moved into the first", () => {
    const reference = range(1000, (i) => i);
    const current = range(1000, (i) => (i < 500 ? 0 : i));
    // The first five deciles (0 to 499) fall into the first one; an empty decile counts half an observation.
    const expected = 0.4 * Math.log(5) + 4 * (0.0005 - 0.1) * Math.log(0.0005 / 0.1);
    expect(psi(current, reference)).toBeCloseTo(expected, 12);
  });

  test("sees values above everything in the reference", () => {
    expect(
      psi(
        range(100, () => 9),
        range(100, () => 1),
      ),
    ).toBeGreaterThan(1);
  });

  test("of an empty sample is unknown", () => {
    expect([psi([], [1]), psi([1], [])]).toEqual([null, null]);
  });
});

describe("KS", () => {
  test.each([
    ["equal samples", [1, 2, 3], [1, 2, 3], 0],
    ["samples apart", [1, 2, 3], [4, 5, 6], 1],
    ["one value moved", [1, 2, 3, 4], [2, 3, 4, 5], 0.25],
    ["ties", [0, 0, 0, 1], [0, 1, 1, 1], 0.5],
    ["sizes that differ", [1, 2], [1, 2, 3, 4], 0.5],
    ["an order that does not matter", [4, 1, 3, 2], [5, 2, 4, 3], 0.25],
  ])("of %s", (_what, a, b, expected) => {
    expect(ks(a, b)).toBeCloseTo(expected, 12);
    expect(ks(b, a)).toBeCloseTo(expected, 12);
  });

  test("of an empty sample is unknown", () => {
    expect([ks([], [1]), ks([1], [])]).toEqual([null, null]);
  });
});
