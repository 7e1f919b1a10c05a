import { expect, test } from "bun:test";
import { LONGEST_TURN_MS, longestTurnMsOf, threadCpuMs } from "../../test/turns.ts";
import { nextTurn, takingTurns } from "./turns.ts";

const burn = (ms: number) => {
  for (const end = threadCpuMs() + ms; threadCpuMs() < end; );
};

test("work that takes turns lets others in", async () => {
  const turn = takingTurns();
  const work = async () => {
    for (let i = 0; i < 200; i++) {
      await turn();
      burn(1);
    }
  };
  expect(await longestTurnMsOf(work)).toBeLessThan(LONGEST_TURN_MS);
});

test("many that each take less than their turn share one turn of the event loop", async () => {
  const work = async () => {
    const turn = takingTurns();
    for (let i = 0; i < 5; i++) {
      await turn();
      burn(0.4);
    }
  };
  const all = async () => {
    for (let i = 0; i < 50; i++) await work();
    await Promise.all(Array.from({ length: 50 }, work));
  };
  expect(await longestTurnMsOf(all)).toBeLessThan(LONGEST_TURN_MS);
});

test("those that wait go on one after another, each behind what the one before has put off", async () => {
  const order: string[] = [];
  const each = async (name: string) => {
    await nextTurn();
    order.push(name);
    setImmediate(() => order.push(`${name} put off`));
  };
  await Promise.all(["a", "b"].map(each));
  await nextTurn();
  expect(order).toEqual(["a", "a put off", "b", "b put off"]);
});

test("work that waited for something else has a whole turn again", async () => {
  const turn = takingTurns();
  burn(20);
  for (let i = 0; i < 3; i++) await new Promise((resolve) => setImmediate(resolve)); // a timer may come before these
  expect(turn()).toBeUndefined();
});
