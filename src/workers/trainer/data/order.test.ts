import { describe, expect, test } from "bun:test";
import { openRandom, permutation, seedOf } from "../../../lib/random.ts";
import { epochOrder, epochsPassed, newSift, openOrder, promptsToDraw, sift } from "./order.ts";

const start = { seed: 42, epoch: 0, position: 0 };

describe("the order of rows", () => {
  test("every epoch has every row once, in another order, the same for the same seed", () => {
    const order = openOrder({ rows: 50, shuffle: true, atEnd: "wrap" }, start);
    const epochs = [order.draw(50), order.draw(50)];
    for (const epoch of epochs)
      expect([...epoch].sort((a, b) => a - b)).toEqual(Array.from({ length: 50 }, (_, i) => i));
    expect(epochs[0]).not.toEqual(epochs[1]!);
    expect(openOrder({ rows: 50, shuffle: true, atEnd: "wrap" }, start).draw(100)).toEqual(epochs.flat());
    const other = openOrder({ rows: 50, shuffle: true, atEnd: "wrap" }, { ...start, seed: 43 });
    expect(other.draw(50)).not.toEqual(epochs[0]!);
  });

  test("after a stop at any row, the order continues with the next row", () => {
    const options = { rows: 7, shuffle: true, atEnd: "wrap" } as const;
    const whole = openOrder(options, start).draw(60);
    const random = openRandom(1);
    for (let round = 0; round < 50; round++) {
      let state = start;
      const drawn: number[] = [];
      while (drawn.length < 60) {
        const order = openOrder(options, JSON.parse(JSON.stringify(state)));
        drawn.push(...order.draw(Math.min(60 - drawn.length, 1 + Math.floor(random() * 20))));
        state = order.state();
      }
      expect(drawn).toEqual(whole);
    }
  });

  test("a short draw ends with the epoch, and the next draw begins a new epoch", () => {
    const order = openOrder({ rows: 5, shuffle: false, atEnd: "short" }, start);
    expect([order.draw(3), order.draw(3), order.draw(3)]).toEqual([
      [0, 1, 2],
      [3, 4],
      [0, 1, 2],
    ]);
    expect(epochsPassed(order.state(), 5)).toBeCloseTo(1.6, 12);
  });

  test("without rows there is no draw, and no endless loop", () => {
    expect(openOrder({ rows: 0, shuffle: true, atEnd: "wrap" }, start).draw(3)).toEqual([]);
  });

  test("without shuffling, rows keep the order of the dataset", () => {
    expect([...epochOrder(3, { seed: 1, epoch: 9, shuffle: false })]).toEqual([0, 1, 2]);
  });
});

describe("random numbers", () => {
  test("are even: 16 bins of 64,000 draws, and every position of a permutation", () => {
    const random = openRandom(7);
    const bins = new Array(16).fill(0);
    for (let i = 0; i < 64_000; i++) bins[Math.floor(16 * random())]++;
    for (const bin of bins) expect(Math.abs(bin - 4000)).toBeLessThan(5 * Math.sqrt(4000));
    const counts = new Array(5).fill(0);
    for (let i = 0; i < 5000; i++) counts[permutation(5, openRandom(i)).indexOf(0)]++;
    for (const place of counts) expect(Math.abs(place - 1000)).toBeLessThan(5 * Math.sqrt(1000));
  });

  test("seeds of neighbouring steps, of swapped parts and beyond 32 bits are different", () => {
    const seeds = [seedOf(1, 2), seedOf(2, 1), seedOf(1, 3), seedOf(1), seedOf(1, 0), seedOf(1 + 2 ** 40), seedOf(-1)];
    expect(new Set(seeds).size).toBe(seeds.length);
    const many = new Set(Array.from({ length: 20_000 }, (_, i) => seedOf(42, i)));
    expect(many.size).toBeGreaterThan(19_990);
  });

  test("are the same on every machine and in every version, because later versions resume runs", () => {
    expect(seedOf(42, 3)).toBe(1_009_079_075);
    expect([...permutation(8, openRandom(42, 0))]).toEqual([4, 1, 2, 5, 7, 6, 0, 3]);
  });
});

describe("dynamic sampling", () => {
  const useful = (group: number) => group > 0;

  test("keeps groups with a gradient, in order, and requests more by the share of such groups", () => {
    let state = newSift<number>(4);
    expect(promptsToDraw(state)).toBe(4);
    state = sift(state, [1, 0, 0, 2], useful);
    expect(state).toEqual({ wanted: 4, draws: 1, sampled: 4, kept: [1, 2], dropped: 2 });
    expect(promptsToDraw(state)).toBe(4); // 2 missing, half are useful
    state = sift(state, [3, 4, 5, 0], useful);
    expect(state.kept).toEqual([1, 2, 3, 4]);
    expect(promptsToDraw(state)).toBe(0);
  });

  test("one missing group of many requests few", () => {
    const state = sift(newSift<number>(10), [1, 2, 3, 4, 5, 6, 7, 8, 9, 0], useful);
    expect(promptsToDraw(state)).toBe(2); // 1 / 0.9
  });

  test("is bounded: groups without a gradient end it with the groups so far", () => {
    let state = newSift<number>(8);
    let draws = 0;
    for (let count = promptsToDraw(state); count > 0; count = promptsToDraw(state)) {
      state = sift(state, new Array(count).fill(0), useful);
      draws++;
    }
    expect(draws).toBe(4);
    expect(state).toMatchObject({ kept: [], dropped: 32, sampled: 32 });
  });
});
