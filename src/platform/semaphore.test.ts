import { expect, test } from "bun:test";
import { createPlaces } from "./semaphore.ts";

const of = (total: number, keepsOne = false, mostEach = total) =>
  createPlaces({ total, maxWaiting: 256, keepsOne, mostEach });

const patient = new AbortController().signal;

/** Takes places and tells when it has them. */
function asker(places: ReturnType<typeof createPlaces>) {
  const order: string[] = [];
  const held = new Map<string, () => void>();
  return {
    order,
    async ask(name: string, workspaceId: string, count = 1, signal = patient) {
      const giveBack = await places.take(workspaceId, count, signal);
      if (!giveBack) return void order.push(`${name} refused`);
      order.push(name);
      held.set(name, giveBack);
    },
    /** One turn later: whoever is next has been told. */
    async over(name: string) {
      held.get(name)?.();
      await Promise.resolve();
      await Promise.resolve();
    },
  };
}

test("a run gets all that it needs at once, and smaller ones behind it do not overtake it for ever", async () => {
  const places = of(4);
  const { ask, over, order } = asker(places);
  await ask("a", "one", 3);
  void ask("big", "two", 4);
  void ask("small", "two", 1);
  await over("nobody");
  expect([order, places.free]).toEqual([["a"], 1]);
  await over("a");
  expect([order, places.free]).toEqual([["a", "big"], 0]);
  await over("big");
  expect([order, places.free]).toEqual([["a", "big", "small"], 3]);
});

test("the workspace that holds the least is next", async () => {
  const places = of(2);
  const { ask, over, order } = asker(places);
  await ask("a1", "a");
  await ask("a2", "a");
  for (const name of ["a3", "a4", "a5"]) void ask(name, "a");
  void ask("b1", "b");
  await over("a1");
  expect(order).toEqual(["a1", "a2", "b1"]);
  await over("a2");
  expect(order).toEqual(["a1", "a2", "b1", "a3"]);
});

test("who leaves the line is out of it, and lets those behind it in", async () => {
  const places = of(2);
  const { ask, over, order } = asker(places);
  await ask("a", "one", 1);
  const leaving = new AbortController();
  const big = ask("big", "two", 2, leaving.signal);
  void ask("small", "two", 1);
  leaving.abort(new Error("left"));
  await expect(big).rejects.toThrow("left");
  await over("nobody");
  expect([order, places.waiting]).toEqual([["a", "small"], 0]);
  await expect(ask("late", "two", 1, leaving.signal)).rejects.toThrow("left");
  expect(places.waiting).toBe(0);
});

test("what is given back twice counts once, and a line too long is refused at once", async () => {
  const places = of(1);
  const { ask, over, order } = asker(places);
  await ask("a", "one");
  await over("a");
  await over("a");
  expect(places.free).toBe(1);
  await ask("b", "one");
  for (let i = 0; i < 256; i++) void ask("waits", "one");
  await ask("c", "one");
  expect(order).toEqual(["a", "b", "c refused"]);
});

test("the last place can be kept for a workspace that holds none", async () => {
  const places = of(2, true);
  const { ask, over, order } = asker(places);
  await ask("a1", "a");
  void ask("a2", "a");
  await over("nobody");
  expect([order, places.free]).toEqual([["a1"], 1]);
  await ask("b1", "b");
  await over("a1");
  expect(order).toEqual(["a1", "b1", "a2"]);
  const single = of(1, true);
  expect(await single.take("a", 1, patient)).toBeFunction();
});

test("M5: one workspace cannot hold all places, neither at once nor one after the other", async () => {
  const places = of(4, true, 3);
  const { ask, over, order } = asker(places);
  void ask("all", "a", 4);
  await ask("a1", "a", 2);
  void ask("a2", "a", 2); // two more would be four
  await ask("b1", "b", 1);
  expect([order, places.free]).toEqual([["a1", "b1"], 1]);
  await ask("c1", "c", 1); // the last place is for a workspace that has none
  await over("a1");
  expect([order, places.free]).toEqual([["a1", "b1", "c1", "a2"], 0]);
});

test("M5: a workspace at its limit that waits for itself does not hold up the others", async () => {
  const places = of(8, false, 7);
  const { ask, over, order } = asker(places);
  await ask("a1", "a", 2);
  await ask("b1", "b", 3);
  void ask("a2", "a", 6);
  void ask("b2", "b", 1);
  await over("nobody");
  expect([order, places.free]).toEqual([["a1", "b1", "b2"], 2]);
});
