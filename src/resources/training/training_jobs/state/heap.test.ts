import { expect, test } from "bun:test";
import { openRandom } from "../../../../lib/random.ts";
import { Heap } from "./heap.ts";

test("a heap gives its items in order, whatever order they came in", () => {
  const random = openRandom(1);
  for (let length = 0; length < 60; length++) {
    const items = Array.from({ length }, () => Math.floor(random() * 20));
    const heap = new Heap(items, (a, b) => a - b);
    const taken = Array.from({ length }, () => heap.take());
    expect(taken).toEqual(items.toSorted((a, b) => a - b));
    expect([heap.size, heap.take(), heap.first()]).toEqual([0, undefined, undefined]);
  }
});

test("building a heap takes at most two comparisons an item", () => {
  let compared = 0;
  const items = Array.from({ length: 10_000 }, (_, i) => -i);
  new Heap(items, (a, b) => {
    compared++;
    return a - b;
  });
  expect(compared).toBeGreaterThan(5_000);
  expect(compared).toBeLessThanOrEqual(20_000);
});

test("an item that was changed in place moves to its new position", () => {
  const heap = new Heap([{ at: 1 }, { at: 3 }, { at: 5 }], (a, b) => a.at - b.at);
  const first = heap.first() as { at: number };
  first.at = 4;
  heap.firstChanged();
  expect([heap.take()?.at, heap.take()?.at, heap.take()?.at]).toEqual([3, 4, 5]);
});
