import { expect, test } from "bun:test";
import { inOrder } from "./in_order.ts";

const collect = async <T>(all: AsyncGenerator<T>) => {
  const items: T[] = [];
  for await (const each of all) items.push(each);
  return items;
};

test("so many are under way and never more, and they are told in their order", async () => {
  let [now, most] = [0, 0];
  const ended: number[] = [];
  const work = async (i: number) => {
    most = Math.max(most, ++now);
    for (let turn = i; turn < 10; turn++) await null; // the later, the sooner
    now--;
    ended.push(i);
    return i;
  };
  expect(await collect(inOrder([0, 1, 2, 3, 4, 5, 6], 3, work))).toEqual([0, 1, 2, 3, 4, 5, 6]);
  expect(ended.indexOf(2)).toBeLessThan(ended.indexOf(0));
  expect(most).toBe(3);
});

test("the first that fails ends it, when those beside it have ended", async () => {
  const ended: number[] = [];
  const all = collect(
    inOrder([0, 1, 2, 3], 3, async (i) => {
      await null;
      ended.push(i);
      if (i === 1) throw new Error("the second");
      return i;
    }),
  );
  await expect(all).rejects.toThrow("the second");
  expect(ended.toSorted()).toEqual([0, 1, 2, 3]);
});

test("nothing gives nothing", async () => expect(await collect(inOrder([], 3, async () => 1))).toEqual([]));
