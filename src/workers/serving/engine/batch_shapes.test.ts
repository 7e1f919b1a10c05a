import { expect, test } from "bun:test";
import { completing, promptRows, shapesOf, slotsFor, Turns } from "./batch_shapes.ts";

const ids = (set: ReadonlySet<number>) => [...set];
const candidate = (id: number, reads: boolean) => ({ id, slot: id, reads });

test("prompts are read one at a time in turn, and running sequences are decoded between them", () => {
  const turns = new Turns(shapesOf(60, "Q8_0"));
  const all = [candidate(0, false), candidate(1, true), candidate(2, true), candidate(3, false)];
  const calls = Array.from({ length: 5 }, () => ids(turns.next(all)));
  expect(calls).toEqual([[1], [0, 3], [2], [0, 3], [1]]);
  expect(ids(turns.next([candidate(2, true)]))).toEqual([2]);
  expect(ids(turns.next([candidate(2, true)]))).toEqual([2]);
});

test("where a call has one group, the groups take turns", () => {
  const turns = new Turns(shapesOf(4, "Q8_0"));
  const all = [0, 2, 5, 9, 11].map((id) => candidate(id, false));
  expect(Array.from({ length: 4 }, () => ids(turns.next(all)))).toEqual([[0, 2], [5], [9, 11], [0, 2]]);
});

test("rows of a call are a multiple of the group, also for a small budget and a slot alone", () => {
  const shapes = shapesOf(60, "others");
  expect([1, 4, 7, 59, 500].map((budget) => promptRows(budget, shapes))).toEqual([4, 4, 4, 56, 60]);
  expect([1, 4, 5].map((parallel) => slotsFor(parallel, shapes))).toEqual([4, 4, 8]);
  expect(slotsFor(5, null)).toBe(5);
  const working = [false, true, false, false, false, false, false, false, true, true, true, true];
  expect(completing(working, 4)).toEqual([0, 2, 3]);
});
