import { drainMicrotasks } from "bun:jsc";
import { expect, test } from "bun:test";
import { FairTurns } from "./fair_turns.ts";

/** A thread whose time passes only when work takes it, and an event loop that is turned by hand. */
function thread() {
  let nowMs = 0;
  const later: (() => void)[] = [];
  const turns = new FairTurns({ now: () => nowMs, later: (run) => void later.push(run), settle: drainMicrotasks });
  const order: string[] = [];
  /** One request: waits if it has to, then keeps the thread for so long. */
  const request = async (workspaceId: string, ms: number) => {
    const wait = turns.enter(workspaceId, ms >= 1 ? 100_000 : 100);
    if (wait) await wait;
    order.push(workspaceId);
    nowMs += ms;
  };
  const settle = async () => {
    for (let i = 0; i < 20; i++) await Promise.resolve();
  };
  /** Ends the turn of the event loop, and lets what goes on in the next one run. */
  const turn = async () => {
    for (const run of later.splice(0)) run();
    await settle();
  };
  return { turns, order, request, settle, turn, pass: (ms: number) => (nowMs += ms) };
}

test("requests go on at once while the turn is short", async () => {
  const { turns, order, request, settle } = thread();
  for (let i = 0; i < 8; i++) void request("a", 0.1);
  await settle();
  expect([order.length, turns.waiting]).toEqual([8, 0]);
});

test("behind the dear requests of another workspace, a large one is the next to go on, and a small one goes on at once", async () => {
  const { order, request, settle, turn } = thread();
  for (let i = 0; i < 20; i++) void request("dear", 30);
  await settle();
  await turn();
  expect(order).toEqual(["dear"]);
  void request("small", 0.1);
  void request("large", 1);
  await settle();
  expect(order).toEqual(["dear", "small"]);
  await turn();
  expect(order[2]).toBe("large");
});

test("a workspace whose requests are dear gets one into a turn, and one with cheap ones many", async () => {
  const { order, request, settle, turn } = thread();
  for (let i = 0; i < 50; i++) void request("dear", 30);
  await settle();
  await turn();
  await turn();
  const before = order.length;
  await turn();
  expect(order.length - before).toBe(1);
  for (let i = 0; i < 400; i++) void request("cheap", 0.05);
  for (let i = 0; i < 30; i++) await turn();
  const cheap = order.filter((each) => each === "cheap").length;
  expect(cheap).toBe(400);
});

test("two workspaces with equal requests share the thread equally, however many each sends", async () => {
  const { order, request, settle, turn } = thread();
  for (let i = 0; i < 300; i++) void request("many", 5);
  for (let i = 0; i < 40; i++) void request("few", 5);
  await settle();
  for (let i = 0; i < 60; i++) await turn();
  const few = order.slice(0, 40).filter((each) => each === "few").length;
  expect(few).toBeGreaterThan(15);
  expect(few).toBeLessThan(25);
});

test("callers without a key share no line: none of them waits for another", async () => {
  const { order, request, settle } = thread();
  void request("dear", 30);
  for (let i = 0; i < 3; i++) void request("", 30);
  await settle();
  expect(order).toEqual(["", "", ""]);
});

test("everybody goes on in the end, and nothing of an idle workspace is kept", async () => {
  const { turns, order, request, settle, turn, pass } = thread();
  for (let i = 0; i < 100; i++) void request(`w${i % 10}`, 7);
  await settle();
  for (let i = 0; i < 200 && turns.waiting > 0; i++) await turn();
  expect(order.length).toBe(100);
  for (let i = 0; i < 30; i++) {
    pass(1_000);
    void request("last", 0);
    await settle();
    await turn();
  }
  expect(turns.known).toBe(1);
});
